"""`watchword describe`: videos in, captions, timelines and files out."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from PIL import Image
from typer.testing import CliRunner

import watchword
from tests.captioners import WORDS, write_captioner
from tests.conftest import SHARED, graph_or_skip, weights_or_skip
from tests.videos import numbered, write_video
from watchword.captioning import captioner as captioner_module
from watchword.captioning.bundle import SHIPPED, CaptionerBundle, shipped
from watchword.captioning.captioner import Captioner
from watchword.captioning.confidence import UNSURE
from watchword.captioning.description import Caption, Description, Segment, Word, segment_from_dict, segment_to_dict
from watchword.captioning.merge import chapters, merge_similar
from watchword.captioning.pipeline import DescribeOptions, caption_video
from watchword.captioning.segmentation import (
    MAX_SECONDS,
    MIN_SECONDS,
    SegmentBuilder,
    TransNetCuts,
    segment_video,
    trim_heap,
)
from watchword.captioning.writers import as_csv, as_guess, as_json, segment_lines, srt, vtt, vtt_chapters
from watchword.cli.main import app
from watchword.errors import WatchwordError
from watchword.features.extraction import Extraction, prepare
from watchword.features.segments import extract_segments
from watchword.text.vocabulary import NEVER_LAST
from watchword.types import Frames
from watchword.video import HistogramCuts, Rate, Squash, iterate_frames
from watchword.video.formats import find_relative

ROOT = Path(__file__).parents[1]
RUN = CliRunner()


@pytest.fixture(scope="module", autouse=True)
def without_transnet(monkeypatch_module: pytest.MonkeyPatch) -> None:
    """Cuts by histogram, whatever weights this machine has."""
    monkeypatch_module.setattr("watchword.captioning.segmentation.is_present", lambda name: False)


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_captioner(tmp_path_factory.mktemp("captioners") / "tiny")


@pytest.fixture(scope="module")
def opened(captioner: Path) -> Captioner:
    return Captioner.load(captioner)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("videos") / "clip.mp4", [numbered(index) for index in range(25)])


def flat(colour: tuple[int, int, int], frames: int) -> list[Any]:
    return [np.full((48, 64, 3), colour, np.uint8)] * frames


@pytest.fixture(scope="module")
def long_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four segments: 5 s red, 6 s blue, 1 s green, 5 s white; eight frames a second."""
    pictures = flat((200, 20, 20), 40) + flat((20, 20, 200), 48) + flat((20, 200, 20), 8) + flat((240, 240, 240), 40)
    times = [125 * index for index in range(len(pictures))]
    return write_video(tmp_path_factory.mktemp("videos") / "long.mp4", pictures, times)


def run(*words: str | Path, stdin: str | None = None) -> Any:
    return RUN.invoke(app, ["describe", *(str(word) for word in words)], input=stdin)


# --- one video ------------------------------------------------------------------------------------------------------


def test_a_video_becomes_a_caption_with_all_that_is_known_about_it(captioner: Path, clip: Path) -> None:
    found = watchword.describe(clip, captioner, top=3)
    assert found.caption == " ".join(word.text for word in found.segments[0].best.words)
    assert set(found.caption.split()) <= set(WORDS)
    assert 0 < found.confidence < 1
    captions = [found.caption, *(str(other) for other in found.alternatives)]
    assert len(set(captions)) == len(captions) == 3
    sure = [caption.confidence for caption in found.segments[0].captions]
    assert sure == sorted(sure, reverse=True)
    weights = found.attention["appearance"]
    assert weights.shape == (len(found.caption.split()), 6, 1)  # words, time steps that the captioner reads, locations
    assert np.allclose(weights.sum((1, 2)), 1, atol=1e-5)
    times = found.segments[0].geometry["appearance"].times
    assert len(times) == 6
    assert all(word.seconds["appearance"] in times.tolist() for word in found.segments[0].best.words)
    assert found.seconds == pytest.approx(1.0)


def test_a_video_sounds_as_its_stored_features_do(opened: Captioner, clip: Path, tmp_path: Path) -> None:
    from watchword.captioning.captioner import SegmentFeatures
    from watchword.features.extraction import VideoFile
    from watchword.features.store import Store

    job = prepare(tmp_path, ["appearance"], ["appearance.time_steps=8"])
    assert Extraction(job).extract(VideoFile("clip", clip)).problem == ""
    arrays = {"appearance": Store(tmp_path).read("clip", "appearance")}  # all 8: the captioner chooses 6 itself
    ((stored, *_),) = opened.generate([SegmentFeatures(0.0, 1.0, arrays)])
    direct = opened.describe(clip)
    assert direct.caption == stored.text
    assert direct.confidence == pytest.approx(stored.confidence, rel=1e-2)


def test_no_caption_babbles(opened: Captioner, clip: Path) -> None:
    for segment in opened.describe(clip, top=8, beam=8).segments:
        for caption in segment.captions:
            words = [word.text for word in caption.words]
            assert words[-1] not in NEVER_LAST
            pairs = list(pairwise(words))
            assert len(set(pairs)) == len(pairs)
            assert all(one != other for one, other in pairs)


def test_alternatives_of_a_video_say_something_else_before_they_word_it_differently(
    opened: Captioner, clip: Path
) -> None:
    from watchword.captioning.merge import split_by_content

    captions = [[word.text for word in one.words] for one in opened.describe(clip, top=8, beam=8).segments[0].captions]
    different, reworded = split_by_content(captions, lambda words: words)
    assert captions == [*different, *reworded]
    assert min(len(different), len(reworded)) >= 2


def test_a_notebook_shows_a_description(opened: Captioner, clip: Path, long_video: Path) -> None:
    whole = opened.describe(clip, top=2)._repr_html_()
    assert "clip.mp4" in whole
    assert whole.count("<li>") == 1
    assert opened.describe(long_video, timeline=True)._repr_html_().count("<tr>") >= 2
    caption = Caption((Word("<b>&", 0.5, {"x": 1.0}),), 0.5)
    odd = Description(Path("<script>.mp4"), 1.0, "c", (Segment(0.0, 1.0, (caption,)),))._repr_html_()
    assert "<script>" not in odd
    assert "&lt;b&gt;&amp;" in odd


@pytest.mark.parametrize("shape", [(1, 1), (16, 240), (300, 20), (2, 2)])
def test_any_shape_of_picture_is_described(opened: Captioner, tmp_path: Path, shape: tuple[int, int]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype(np.uint8)
    Image.fromarray(picture).save(tmp_path / "picture.png")
    found = opened.describe(tmp_path / "picture.png")
    assert found.caption
    assert len(found.segments) == 1


def test_a_video_of_one_frame_and_a_photograph_are_described(opened: Captioner, tmp_path: Path) -> None:
    video = write_video(tmp_path / "one.mp4", [numbered(3)])
    Image.fromarray(numbered(3)).save(tmp_path / "photo.jpg")
    assert opened.describe(video).caption
    assert opened.describe(video, timeline=True).caption
    assert opened.describe(tmp_path / "photo.jpg", timeline=True).caption


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/data is not here")
def test_every_odd_file_is_described_or_reported(captioner: Path) -> None:
    files = sorted((SHARED / "decode").iterdir())
    done = run(*files, "--model", captioner, "--whole", "--format", "json")
    assert done.exit_code == 1  # two of them are broken
    videos = {Path(video["video"]).name: video for video in json.loads(done.stdout)["videos"]}
    bad = {name for name, video in videos.items() if "error" in video}
    assert bad == {"CORRUPT_msrvtt_video1696.mp4", "result.webm"}
    assert len(videos) == len(files)
    assert all(video["caption"] for name, video in videos.items() if name not in bad)


# --- the command ---------------------------------------------------------------------------------------------------


def test_one_video_prints_one_caption(captioner: Path, opened: Captioner, clip: Path) -> None:
    done = run(clip, "--model", captioner)
    assert done.exit_code == 0, done.output
    found = opened.describe(clip)
    assert done.stdout == f"{as_guess(found.segments[0].best)}\n"


def test_a_bad_file_is_reported_and_stops_nobody(captioner: Path, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.mp4").write_bytes(b"no video" * 100)
    done = run(tmp_path / "broken.mp4", tmp_path / "missing.mp4", clip, "--model", captioner)
    assert done.exit_code == 1
    assert done.stdout.startswith(f"{clip}: ")
    assert len(done.stderr.splitlines()) == 2
    assert "broken.mp4" in done.stderr
    assert "no such file" in done.stderr


def test_a_missing_video_is_told_without_waiting_for_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from watchword.cli.main import app\n"
        "try: app(['describe', 'missing.mp4'])\nexcept SystemExit as end: assert end.code == 1\n"
        "assert 'torch' not in sys.modules"
    )
    done = python(["-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no such file" in done.stderr


def test_help_is_there_without_torch_and_numpy(tmp_path: Path) -> None:
    code = (
        "import sys; import watchword; from watchword.cli.main import app\n"
        "try: app(['describe', '--help'])\nexcept SystemExit: pass\n"
        "assert not {'torch', 'numpy', 'av'} & set(sys.modules)"
    )
    assert python(["-c", code], tmp_path).returncode == 0


def test_describing_does_not_load_what_only_training_needs(captioner: Path, clip: Path, tmp_path: Path) -> None:
    code = (
        "import sys, watchword\n"
        f"assert watchword.describe({str(clip)!r}, {str(captioner)!r}).caption\n"
        "unneeded = {'accelerate', 'watchword.training', 'watchword.metrics', 'watchword.text.ptb'}\n"
        "assert not unneeded & set(sys.modules)"
    )
    done = python(["-c", code], tmp_path)
    assert done.returncode == 0, done.stderr


def python(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, *arguments]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_command_loads_torch_without_what_only_compilers_need(tmp_path: Path) -> None:
    lines = [
        "import sys",
        "from watchword.cli._shared import import_torch_quickly",
        "import_torch_quickly()",
        "import torch",
        "net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())",
        "net(torch.randn(2, 3, 8, 8)).sum().backward()",
        "assert net[0].weight.grad is not None",
        "print('torch._decomp' in sys.modules)",
    ]
    answer = python(["-c", "\n".join(lines)], tmp_path)
    assert answer.stdout == "False\n", answer.stderr
    whole = python(["-c", "import torch, sys; print('torch._decomp' in sys.modules)"], tmp_path)
    assert whole.stdout == "True\n", "torch loads it no more: quick_torch can go"


@pytest.mark.parametrize("ends", [True, False])
def test_the_command_ends_at_once_and_all_that_it_said_is_there(ends: bool, tmp_path: Path) -> None:
    lines = [
        "import atexit",
        "from watchword.cli._shared import import_torch_quickly, leave",
        "import_torch_quickly()" if ends else "import torch",
        "atexit.register(print, 'taken apart')",
        "print('said', 'x' * 100_000)",
        "leave(7)",
    ]
    answer = python(["-c", "\n".join(lines)], tmp_path)
    assert answer.returncode == 7, answer.stderr
    assert answer.stdout.startswith("said x")
    assert answer.stdout.count("x") == 100_000
    assert ("taken apart" in answer.stdout) is not ends, "only our own quick process may skip what others asked for"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "watchword", "models"]
        answer = subprocess.run(words, env=env, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert answer.returncode == 1
    assert answer.stderr.startswith("watchword: cannot write the output: ")
    assert answer.stderr.count("\n") == 1


def test_folders_patterns_and_lists_are_taken(captioner: Path, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a.mp4").write_bytes(clip.read_bytes())
    (tmp_path / "below" / "b.MKV").write_bytes(clip.read_bytes())
    Image.fromarray(numbered(7)).save(tmp_path / "below" / "c.png")
    (tmp_path / "notes.txt").write_text("not a video")
    folder = run(tmp_path, "--model", captioner, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(folder.stdout)))
    assert [Path(row["video"]).name for row in rows] == ["a.mp4", "b.MKV", "c.png"]
    pattern = run(tmp_path / "*.mp4", "--model", captioner, "--format", "csv")
    assert [Path(row["video"]).name for row in csv.DictReader(io.StringIO(pattern.stdout))] == ["a.mp4"]
    for words in (["-"], ["--list", "-"]):
        listed = run(*words, "--model", captioner, stdin=f"{tmp_path / 'a.mp4'}\n\n{clip}\n")
        assert len(listed.stdout.splitlines()) == 2, listed.output


def test_what_is_not_sure_enough_is_not_said(captioner: Path, opened: Captioner, clip: Path) -> None:
    sure = opened.describe(clip).confidence
    assert opened.describe(clip, min_confidence=sure - 1e-6).caption
    silent = opened.describe(clip, min_confidence=sure + 1e-6)
    assert silent.caption == ""
    assert silent.confidence == 0
    done = run(clip, "--model", captioner, "--min-confidence", "1.0")
    assert done.exit_code == 0
    assert done.stdout == ""
    assert "no caption" in done.stderr
    document = json.loads(run(clip, "--model", captioner, "--min-confidence", "1.0", "--format", "json").stdout)
    assert document["videos"][0]["caption"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a video"),
        (["x.mp4", "--model", "nonsense"], "no such file"),
        (["clip.mp4", "--resume"], "--resume needs --output"),
        (["a.mp4", "b.mp4", "--format", "srt"], "a file for one video"),
    ],
)
def test_a_mistake_is_one_clear_line(words: list[str], message: str, tmp_path: Path) -> None:
    done = python(["-m", "watchword", "describe", *words], tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_an_unknown_captioner_is_told(clip: Path) -> None:
    done = RUN.invoke(app, ["describe", str(clip), "--model", "nonsense"])
    assert isinstance(done.exception, WatchwordError)
    assert "unknown captioner 'nonsense'" in str(done.exception)


def test_a_run_on_drawn_streams_says_why_it_cannot_see_videos(shapes: Path, clip: Path, tmp_path: Path) -> None:
    folder = write_captioner(tmp_path / "drawn")
    (folder / "streams.json").unlink()
    recipe = (folder / "recipe.toml").read_text().replace('store = "features"', f'store = "{shapes / "store"}"')
    (folder / "recipe.toml").write_text(recipe)
    with pytest.raises(WatchwordError, match="cannot make of a video"):
        watchword.describe(clip, folder)


# --- timelines -----------------------------------------------------------------------------------------------------


@given(
    cuts=st.lists(st.floats(0.1, 120), max_size=30),
    end=st.floats(0.5, 130),
    steps=st.lists(st.floats(0.05, 9), min_size=1, max_size=5),
)
def test_segments_cover_the_video_and_have_sensible_lengths(cuts: list[float], end: float, steps: list[float]) -> None:
    cuts = sorted(cut for cut in cuts if cut < end)
    found: list[tuple[float, float]] = []
    segments, reached, turn = SegmentBuilder(), 0.0, 0
    while reached < end:
        before, reached = reached, min(end, reached + steps[turn % len(steps)])
        found += segments.feed([cut for cut in cuts if before < cut <= reached], reached)
        turn += 1
    found += segments.finish(end)
    at_once = SegmentBuilder()
    assert found == at_once.feed(cuts, end) + at_once.finish(end)  # however the video comes in
    assert found[0][0] == 0
    assert found[-1][1] == end
    assert all(one[1] == other[0] for one, other in pairwise(found))
    assert all(MIN_SECONDS <= stop - start < MAX_SECONDS + MIN_SECONDS for start, stop in found) or len(found) == 1


def test_a_segment_ends_at_a_cut_where_it_can() -> None:
    segments = SegmentBuilder()
    assert segments.feed([5.0, 6.0, 11.0], 14.5) == [(0.0, 5.0), (5.0, 11.0)]  # one second alone is too short
    assert segments.finish(15.0) == [(11.0, 15.0)]
    endless = SegmentBuilder()
    assert endless.feed([], 45.0) == [(0.0, 10.0), (10.0, 20.0), (20.0, 30.0)]
    assert endless.finish(46.0) == [(30.0, 46.0)]
    tail = SegmentBuilder()
    assert tail.feed([8.0], 9.0) + tail.finish(9.0) == [(0.0, 9.0)]  # a rest that is too short goes with the rest


def test_a_segment_is_seen_as_a_video_of_its_own(long_video: Path, tmp_path: Path) -> None:
    extraction = Extraction(prepare(Path(), ["appearance"], ["appearance.time_steps=4"]))

    class Fixed:
        plan, size = Rate(4.0), Squash(8, 8)

        def feed(self, frames: Frames) -> list[tuple[float, float]]:
            return []

        def finish(self) -> list[tuple[float, float]]:
            return [(0.0, 5.0), (5.0, 11.0), (11.0, 17.0)]

    found = list(extract_segments(extraction, long_video, ["appearance"], Fixed(), []))
    assert [(start, end) for start, end, _ in found] == [(0.0, 5.0), (5.0, 11.0), (11.0, 17.0)]
    blue = write_video(tmp_path / "blue.mp4", flat((20, 20, 200), 48), [125 * index for index in range(48)])
    alone = extraction.arrays(blue, ["appearance"], [])["appearance"]
    within = found[1][2]["appearance"]
    assert within.times == pytest.approx(alone.times, abs=0.126)  # held four times a second
    assert np.allclose(within.values, alone.values, atol=0.05)
    assert not np.allclose(found[0][2]["appearance"].values, alone.values, atol=0.2)


def test_cuts_are_the_same_however_the_video_comes_in(long_video: Path) -> None:
    found = []
    for chunk in (1, 7, 500):
        cuts = HistogramCuts()
        times = [
            cut
            for frames in iterate_frames(long_video, Rate(8.0), Squash(64, 48), chunk=chunk)
            for cut in cuts.feed(frames)
        ]
        found.append(times + cuts.finish())
    assert found[0] == found[1] == found[2] == [5.0, 11.0, 12.0]


def test_the_network_for_cuts_sees_each_frame_once_in_the_middle_of_a_window() -> None:
    random = np.random.default_rng(0)
    pictures = random.integers(0, 256, (230, 27, 48, 3)).astype(np.uint8)
    pictures[:, 0, 0, 0] = 0
    pictures[:, 0, 0, 1] = np.arange(230)
    pictures[[60, 61, 149, 150], 0, 0, 0] = 255  # the frames that end a segment
    times = np.arange(230) / 25

    class Marks:
        def __call__(self, window: torch.Tensor) -> torch.Tensor:
            assert window.shape == (1, 100, 27, 48, 3)
            numbers = window[0, :, 0, 0, 1].tolist()
            for one, other in pairwise(numbers):  # in order, without a hole; only the video's ends stand still
                assert other == one + 1 or (other == one and one in {0, 229})
            return window[:, :, 0, 0, 0].float() - 128

    found = []
    for chunk in (16, 230):
        cuts = TransNetCuts(Marks())  # type: ignore[arg-type]
        some = [
            cut
            for begin in range(0, 230, chunk)
            for cut in cuts.feed(Frames(pictures[begin:][:chunk], times[begin:][:chunk]))
        ]
        assert len(cuts.pictures) <= 120  # flat memory
        found.append(some + cuts.finish())
    assert found[0] == found[1] == [pytest.approx(62 / 25), pytest.approx(151 / 25)]


def test_a_still_video_is_not_shown_to_the_network_for_cuts() -> None:
    def refuse(window: torch.Tensor) -> torch.Tensor:
        raise AssertionError("nothing changes here")

    cuts = TransNetCuts(refuse)  # type: ignore[arg-type]
    frames = Frames(np.full((150, 27, 48, 3), 90, np.uint8), np.arange(150) / 25)
    assert cuts.feed(frames) + cuts.finish() == []
    assert cuts.settled == pytest.approx(149 / 25)


def test_a_long_video_becomes_a_timeline(captioner: Path, long_video: Path) -> None:
    found = list(caption_video(Captioner.load(captioner), long_video, DescribeOptions(timeline=True), seconds=17.0))
    assert [(segment.start, segment.end) for segment in found] == [(0.0, 5.0), (5.0, 11.0), (11.0, 17.0)]
    assert all(
        segment.start <= word.seconds["appearance"] <= segment.end for segment in found for word in segment.best.words
    )


def test_what_a_caption_keeps_does_not_hold_more_in_memory(captioner: Path, clip: Path) -> None:
    """A video of two hours has a thousand captions: each keeps its own attention, not that of all that were found."""
    found = watchword.describe(clip, captioner, top=2)
    for caption in (found.best, *found.alternatives):
        assert caption is not None
        assert all(weights.base is None for weights in caption.attention.values())


def test_memory_is_given_back_every_few_segments(
    captioner: Path, long_video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    monkeypatch.setattr("watchword.captioning.segmentation.trim_heap", lambda: given.append(1))
    monkeypatch.setattr("watchword.captioning.pipeline.TRIM_EVERY", 1)
    segments = list(caption_video(Captioner.load(captioner), long_video, DescribeOptions(timeline=True)))
    assert len(given) == len(segments) > 1


def test_another_c_library_has_nothing_to_trim_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> None:
        raise OSError(name)

    trim_heap()
    monkeypatch.setattr("ctypes.CDLL", none)
    trim_heap()


def test_a_video_with_sound_is_heard_segment_by_segment(tmp_path: Path) -> None:
    weights_or_skip("yamnet")
    times = [125 * index for index in range(72)]
    video = write_video(tmp_path / "sound.mp4", flat((90, 90, 90), 72), times, tone=440, tone_seconds=9)
    silent = write_video(tmp_path / "silent.mp4", flat((90, 90, 90), 72), times)
    opened = Captioner.load(write_captioner(tmp_path / "listener", streams=("appearance", "audio")))
    extraction = opened.extraction

    class Halves:
        plan, size = Rate(4.0), Squash(8, 8)

        def feed(self, frames: Frames) -> list[tuple[float, float]]:
            return []

        def finish(self) -> list[tuple[float, float]]:
            return [(0.0, 4.0), (4.0, 9.0)]

    whole = extraction.arrays(video, ["audio"], [])["audio"]
    parts = [arrays["audio"] for _, _, arrays in extract_segments(extraction, video, ["audio"], Halves(), [])]
    assert sum(len(part.times) for part in parts) == len(whole.times)
    assert np.concatenate([parts[0].times, parts[1].times + 4.0]) == pytest.approx(whole.times)
    resumed = extract_segments(extraction, video, ["audio"], Halves(), [], start=4.0)
    assert np.array_equal(list(resumed)[1][2]["audio"].values, parts[1].values)
    assert opened.describe(silent).caption
    assert opened.describe(silent, timeline=True).caption


def said(text: str, start: float, end: float, sure: float = 0.5) -> Segment:
    return Segment(start, end, (Caption(tuple(Word(word, 0.5) for word in text.split()), sure),))


def test_a_video_of_any_length_goes_through_the_same_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes, a cut every 30 s: the frames that are held are those of the segment in hand."""
    from watchword.features import segments
    from watchword.features.samplers import Extracted, ImageSampler

    def zeros(self: ImageSampler, frames: Frames, view: str) -> Iterator[Extracted]:
        yield Extracted(frames.times, {"pooled": torch.zeros(len(frames.times), 1280)}, self.backbone)

    monkeypatch.setattr(ImageSampler, "see", zeros)
    most = 0
    add = segments._Held.add

    def counted(self: Any, frames: Frames, view: str) -> None:
        nonlocal most
        add(self, frames, view)
        most = max(most, len(self.frames[view]))

    monkeypatch.setattr(segments._Held, "add", counted)
    colours = [(30 + 60 * (index // 120 % 2), 60, 200 - 60 * (index // 120 % 2)) for index in range(2400)]
    pictures = [np.full((24, 32, 3), colour, np.uint8) for colour in colours]
    video = write_video(tmp_path / "long.mp4", pictures, [250 * index for index in range(2400)])
    extraction = Extraction(prepare(Path(), ["appearance"], ["appearance.time_steps=4", "appearance.pixels=32"]))
    found = list(extract_segments(extraction, video, ["appearance"], segment_video(0.0, 600.0), []))
    assert len(found) == 60
    assert {end - start for start, end, _ in found} == {10.0}
    assert most <= 4 * (MAX_SECONDS + MIN_SECONDS) + 32  # four a second, and two chunks


def test_a_name_of_any_bytes_is_written_in_every_format(captioner: Path, clip: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9 [bold]\n.mp4")
    try:
        odd.write_bytes(clip.read_bytes())
    except OSError:
        pytest.skip("this file system takes no such name")
    for form in ("text", "json", "csv", "vtt"):
        where = ["--output", tmp_path / "out"] if form == "vtt" else []
        done = run(odd, clip, *where, "--model", captioner, "--format", form)
        assert done.exit_code == 0, done.output
        if form == "json":
            assert json.loads(done.stdout)["videos"][0]["video"].endswith("caf\\xe9 [bold]\\n.mp4")


def test_neighbours_that_say_the_same_become_one() -> None:
    segments = [
        said("a man is talking", 0, 8, 0.3),
        said("a man is talking", 8, 15, 0.6),
        said("a dog runs", 15, 20),
        said("a dog runs", 25, 30),
        said("a dog is running with a ball", 30, 36),
    ]
    joined = list(merge_similar(segments))
    assert [(segment.start, segment.end, segment.best.confidence) for segment in joined[:1]] == [
        (0, 15, 0.6)
    ]  # the surer speaks
    assert [(segment.start, segment.end) for segment in joined] == [
        (0, 15),
        (15, 20),
        (25, 30),
        (30, 36),
    ]  # a gap keeps apart


def test_chapters_are_few_and_follow_each_other() -> None:
    segments = [said(f"word{index} here", 10 * index, 10 * index + 10, index % 7 / 10) for index in range(720)]
    found = chapters(segments)
    assert len(found) <= 40
    assert found[0].start == 0
    assert found[-1].end == 7200
    assert all(one.end == other.start for one, other in pairwise(found))
    assert found[0].best.confidence == 0.6  # called by its surest caption


# --- files ---------------------------------------------------------------------------------------------------------

ODD = Description(
    Path("a --> b & c.mp4"),
    7300.0,
    "tiny",
    (
        said("fish & <chips> --> \n here", 0.0, 3.9996),
        said("a man 's dog", 3.9994, 4.0),
        said("the end", 4.0, 7300.0),
    ),
)
STAMP = r"(\d{2,}):([0-5]\d):([0-5]\d)\.(\d{3})"


def parse_webvtt(text: str) -> list[tuple[float, float, str]]:
    """WebVTT by the rules of its syntax: signature, blank line, blocks; times in order; nothing unescaped."""
    assert text.startswith("WEBVTT\n\n")
    assert text.endswith("\n")
    found: list[tuple[float, float, str]] = []
    for block in re.split(r"\n{2,}", text.removeprefix("WEBVTT\n\n").strip("\n")):
        lines = block.split("\n")
        if lines[0].startswith("NOTE"):
            assert "-->" not in block
            continue
        if "-->" not in lines[0]:
            lines = lines[1:]  # the identifier
        times = re.fullmatch(f"{STAMP} --> {STAMP}", lines[0])
        assert times, lines[0]
        numbers = [int(part) for part in times.groups()]
        start, end = (h * 3600 + m * 60 + s + ms / 1000 for h, m, s, ms in (numbers[:4], numbers[4:]))
        assert end > start
        assert not found or start >= found[-1][0]
        payload = "\n".join(lines[1:])
        assert payload
        assert "-->" not in payload
        assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)", payload), payload
        found.append((start, end, payload))
    return found


@pytest.mark.parametrize("write", [vtt, vtt_chapters])
def test_webvtt_keeps_the_rules_whatever_is_said(write: Any) -> None:
    cues = parse_webvtt(write(ODD))
    assert cues
    assert all(one[1] <= other[0] for one, other in pairwise(cues))
    if write is vtt:
        assert [cue[2] for cue in cues] == ["Fish &amp; &lt;chips&gt; --&gt; here.", "A man's dog.", "The end."]
        assert cues[-1][1] == 7300.0


def test_srt_numbers_its_blocks_and_wraps_its_lines() -> None:
    long = Description(Path("x.mp4"), 9.0, "tiny", (said("word " * 20, 0, 5.0004), said("two", 5.0, 9.0)))
    first, second = srt(long).strip().split("\n\n")
    lines = first.split("\n")
    assert lines[:2] == ["1", "00:00:00,000 --> 00:00:05,000"]
    assert all(len(line) <= 42 for line in lines[2:])
    assert second.split("\n") == ["2", "00:00:05,000 --> 00:00:09,000", "Two."]


def test_json_is_as_its_schema_says(captioner: Path, clip: Path) -> None:
    schema = json.loads((ROOT / "docs" / "reference" / "describe.schema.json").read_text("utf-8"))
    check = Draft202012Validator(schema)
    check.validate(json.loads(as_json([ODD], [(Path("bad.mp4"), "cannot read it")])))
    check.validate(json.loads(run(clip, "missing.mp4", "--model", captioner, "--format", "json", "--top", "2").stdout))
    wrong = json.loads(as_json([ODD]))
    wrong["videos"][0]["confidence"] = 2
    assert not check.is_valid(wrong)


def test_a_segment_comes_back_from_what_is_written_of_it() -> None:
    segment = Segment(
        1.0, 2.5, (Caption((Word("a", 0.25, {"motion": 1.5}), Word("dog", 0.5)), 0.75), ODD.segments[2].best)
    )
    assert segment_from_dict(json.loads(json.dumps(segment_to_dict(segment)))) == segment


def test_a_caption_without_much_confidence_is_shown_as_a_guess() -> None:
    words = (Word("a", 1.0), Word("dog", 0.9))
    sure, unsure = (Caption(words, confidence) for confidence in (UNSURE, UNSURE - 0.01))
    assert segment_lines(Segment(0, 1, (sure, unsure)), is_timeline=False) == ["a dog (0.30)", "or: a dog (0.29)"]
    assert segment_lines(Segment(0, 1, (unsure,)), is_timeline=False) == ["a dog? (unsure, 0.29)"]


def test_csv_has_a_row_for_each_segment() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv([ODD]))))
    assert [row["caption"] for row in rows][1:] == ["a man's dog", "the end"]
    assert rows[0]["video"] == "a --> b & c.mp4"


@pytest.mark.parametrize("name", ["=1+1.mp4", "+a.mp4", "-a.mp4", "@a.mp4"])
def test_no_cell_of_a_table_is_a_formula(name: str) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv([replace(ODD, video=Path(name))]))))
    assert rows[0]["video"] == f"'{name}"


def test_the_ending_of_the_output_says_the_format(captioner: Path, long_video: Path, tmp_path: Path) -> None:
    for name in ("x.srt", "x.vtt", "x.json", "x.csv", "x.txt"):
        done = run(long_video, "--model", captioner, "--output", tmp_path / name, "--timeline")
        assert done.exit_code == 0, done.output
        assert done.stdout == ""
    assert {path.name for path in tmp_path.iterdir()} == {"x.srt", "x.vtt", "x.json", "x.csv", "x.txt"}  # nothing else
    parse_webvtt((tmp_path / "x.vtt").read_text())
    assert (tmp_path / "x.srt").read_text().startswith("1\n00:00:00,000 --> ")


def test_a_folder_gets_a_file_for_each_video(captioner: Path, clip: Path, long_video: Path, tmp_path: Path) -> None:
    done = run(clip, long_video, "--model", captioner, "--format", "chapters", "--output", tmp_path / "out")
    assert done.exit_code == 0, done.output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"clip.chapters.vtt", "long.chapters.vtt"}


def test_outputs_mirror_the_folders_of_the_videos(captioner: Path, clip: Path, tmp_path: Path) -> None:
    for name in ("day1/IMG_1.mp4", "day2/IMG_1.mp4", "day2/IMG_1.mkv"):
        (tmp_path / "camera" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "camera" / name).write_bytes(clip.read_bytes())
    words = ("--model", captioner, "--output", tmp_path / "out", "--explain", tmp_path / "pages")
    assert run(tmp_path / "camera", *words).exit_code == 0
    names = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")}
    assert names == {"day1/IMG_1.txt", "day2/IMG_1.mp4.txt", "day2/IMG_1.mkv.txt"}
    assert (tmp_path / "pages" / "day1" / "IMG_1.html").exists()


def test_folders_that_share_a_name_are_mirrored_as_a_whole(tmp_path: Path) -> None:
    for name in ("day1/IMG_1.mp4", "day1/only.mp4", "day2/IMG_1.mp4"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = find_relative([str(tmp_path / "day1"), str(tmp_path / "day2")])
    assert {path.as_posix() for path in found} == {"day1/IMG_1.mp4", "day1/only.mp4", "day2/IMG_1.mp4"}
    assert {path.as_posix() for path in find_relative([str(tmp_path / "day1")])} == {"IMG_1.mp4", "only.mp4"}


# --- stopping and going on -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["video.json", "video.srt"])
def test_ctrl_c_leaves_what_is_done_and_resume_goes_on(
    captioner: Path, long_video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    whole, output = tmp_path / f"whole{Path(name).suffix}", tmp_path / name
    words = [long_video, "--model", captioner, "--timeline", "--output"]
    assert run(*words, whole).exit_code == 0
    caption_segment = captioner_module.Captioner.caption_segment
    count = 0

    def stops(self: Captioner, *arguments: Any) -> Segment:
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return caption_segment(self, *arguments)

    monkeypatch.setattr(captioner_module.Captioner, "caption_segment", stops)
    stopped = run(*words, output)
    assert stopped.exit_code == 130
    assert "--resume" in stopped.stderr
    assert (tmp_path / f"{name}.part").exists()
    text = output.read_text()
    assert (
        ("00:00:11,000" in text and "00:00:17,000" not in text) if name == "video.srt" else json.loads(text)["videos"]
    )
    resumed = run(*words, output, "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert count == 4  # the two segments that were done are not described again
    assert not (tmp_path / f"{name}.part").exists()
    if name == "video.srt":
        assert output.read_text() == whole.read_text()
    else:
        ends = [
            [segment["end"] for segment in json.loads(path.read_text())["videos"][0]["segments"]]
            for path in (output, whole)
        ]
        assert ends[0] == ends[1]
    again = run(*words, output, "--resume")
    assert again.exit_code == 0
    assert "complete already" in again.stderr
    assert count == 4  # whole already


def test_a_job_is_not_gone_on_with_under_other_settings(captioner: Path, long_video: Path, tmp_path: Path) -> None:
    part = tmp_path / "x.json.part"
    settings = {"captioner": str(captioner), "top": 1, "beam": 5, "timeline": None}
    for changed, told in (
        ({"captioner": "other"}, f"captioner: other, now {captioner}"),
        ({"speech": True}, "speech: True, now not set"),
    ):
        part.write_text(json.dumps(settings | changed) + "\n")
        done = run(long_video, "--model", captioner, "--output", tmp_path / "x.json", "--resume")
        assert isinstance(done.exception, WatchwordError)
        assert f"begun with other settings ({told})" in str(done.exception)
    part.write_text(json.dumps(settings | {"captioner": "default"}) + "\n")
    done = run(long_video, "--output", tmp_path / "x.json", "--resume")  # another choice than when it was begun
    assert "(captioner: default, now light)" in str(done.exception)


def test_half_a_line_of_a_killed_job_is_forgotten(captioner: Path, clip: Path, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    job = {"captioner": str(captioner), "top": 1, "beam": 5, "timeline": None}
    (tmp_path / "x.json.part").write_text(json.dumps(job) + '\n{"video": "half')
    done = run(clip, "--model", captioner, "--output", output, "--resume")
    assert done.exit_code == 0, done.output
    assert len(json.loads(output.read_text())["videos"]) == 1


# --- what is shipped -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_captioner_is_whole_and_small(name: str) -> None:
    folder = CaptionerBundle(SHIPPED / name)
    files = {path.name for path in folder.folder.iterdir()}
    needed = {"recipe.toml", "model.safetensors", "vocabulary.txt", "streams.json", "calibration.json", "card.md"}
    assert needed <= files
    assert sum(path.stat().st_size for path in folder.folder.iterdir()) <= 40e6
    assert not re.search(r"""["']/""", (folder.folder / "recipe.toml").read_text()), "a path of one machine"
    assert all((folder.folder / "card.md").read_text().count(word) for word in ("MSR-VTT", "CIDEr"))


def test_the_default_captioner_reads_eight_frames(clip: Path) -> None:
    graph_or_skip("clip_vit_b16")
    found = watchword.describe(clip, "base", top=2)
    assert found.caption
    assert found.caption.split()[-1] not in NEVER_LAST
    assert 0 < found.confidence < 1
    words, frames = len(found.best.words), len(found.segments[0].geometry["appearance"].times)
    assert 1 < frames <= 8
    shapes = {name: weights.shape for name, weights in found.attention.items()}
    assert shapes == {"temporal:appearance": (words, frames, 1)}


def test_the_light_captioner_speaks_with_what_is_installed_with_it(clip: Path) -> None:
    found = watchword.describe(clip, "light", top=3)
    assert found.caption
    assert found.caption.split()[-1] not in NEVER_LAST
    assert 0 < found.confidence < 1
