"""Lanes beside the captions: what is said, written and heard, from a network's output to files, library and server."""

import csv
import io
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from PIL import Image, ImageDraw, ImageFont
from typer.testing import CliRunner

from tests.libraries import Stub, add, said
from tests.servers import fake_service, serving
from tests.videos import numbered, write_video
from watchword.captioning.description import Description, Segment, description_from_dict, description_to_dict
from watchword.captioning.journal import DescribeJob, Journal
from watchword.captioning.pipeline import DescribeOptions
from watchword.captioning.writers import as_csv, as_html, as_json, as_text, srt, vtt
from watchword.cli._shared import LazyCaptioner
from watchword.cli.main import app
from watchword.downloads import fetch
from watchword.errors import WatchwordError
from watchword.lanes import LaneOptions, LanePart, LaneProgress, check_lanes, read_lanes
from watchword.lanes import speech as speech_module
from watchword.lanes.screen_text import TextReader, block_means, has_changed, similarity
from watchword.lanes.speech import RATE, SpokenWord, cues_of, on_the_clock, speech_blocks
from watchword.lanes.tracking import CueTracker, Sighting
from watchword.lanes.whisper_weights import WHISPER, find_weights, read_weights
from watchword.library import Library
from watchword.library.query import Query
from watchword.server.caption_process import CaptionHandler
from watchword.types import Cue, Lane, Language

ROOT = Path(__file__).parents[1]
RUN = CliRunner()
SPEECH = (Cue(0.5, 2.0, "Good morning & welcome.", 0.9), Cue(2.5, 4.0, "The dog sleeps.", 0.8))
TEXT = (Cue(0.0, 3.0, "HARBOUR", 0.99, (0.1, 0.2, 0.5, 0.25)), Cue(2.0, 4.0, "=EXIT", 0.9, (0.5, 0.5, 0.9, 0.6)))
LANES: dict[Lane, tuple[Cue, ...]] = {"speech": SPEECH, "text": TEXT, "sounds": ()}


def described(name: str = "talk.mp4") -> Description:
    segment = Segment(0.0, 4.0, (said("a man talks about a dog"),))
    return Description(Path(name), 4.0, "light", (segment,), (), LANES, Language("en", 0.97))


# --- cues from sightings ---------------------------------------------------------------------------------------------


def test_a_line_that_stays_is_told_once_with_its_likeliest_reading() -> None:
    tracker = CueTracker(gap=2.5, similarity=similarity, threshold=0.7)
    readings = ["Welcome to the harbour", "Welc0me to the harbour", "Welcome to the harbour"]
    for time, (reading, score) in enumerate(zip(readings, (0.9, 0.99, 0.92), strict=True)):
        assert tracker.see(float(time), [Sighting(reading, score)]) == ()
    assert tracker.see(3.0, [Sighting("Exit", 0.9)]) == ()
    assert tracker.finish(5.0) == (Cue(0.0, 3.0, "Welcome to the harbour", 0.92), Cue(3.0, 5.0, "Exit", 0.9))


def test_a_line_that_is_missed_for_a_while_goes_on_and_ends_when_it_was_first_missing() -> None:
    tracker = CueTracker(gap=2.0)
    for time, sightings in enumerate([["a"], [], ["a"], [], []]):
        assert tracker.see(float(time), [Sighting(text, 1.0) for text in sightings]) == ()
    assert tracker.see(5.0, []) == (Cue(0.0, 3.0, "a", 1.0),)
    assert tracker.finish(6.0) == ()


def test_two_equal_lines_at_once_are_two_cues() -> None:
    tracker = CueTracker(gap=1.0)
    for time in (0.0, 1.0):
        tracker.see(time, [Sighting("Exit", 0.9), Sighting("Exit", 0.8)])
    assert tracker.finish(2.0) == (Cue(0.0, 2.0, "Exit", 0.9), Cue(0.0, 2.0, "Exit", 0.8))


@pytest.mark.parametrize("stop", range(1, 6))
def test_a_tracker_that_was_stopped_continues_as_if_it_had_not_been(stop: int) -> None:
    steps = [["a"], ["a", "b"], ["b"], [], ["b"], ["c"], [], []]

    def run(tracker: CueTracker, first: int, last: int) -> list[Cue]:
        return [
            cue
            for time in range(first, last)
            for cue in tracker.see(float(time), [Sighting(text, 0.9) for text in steps[time]])
        ]

    whole, first, second = (CueTracker(gap=2.0) for _ in range(3))
    expected = [*run(whole, 0, len(steps)), *whole.finish(8.0)]
    found = run(first, 0, stop)
    reached = stop - 0.5
    second.resume(first.open_cues(reached), reached)
    assert [*found, *run(second, stop, len(steps)), *second.finish(8.0)] == expected


# --- speech ----------------------------------------------------------------------------------------------------------


def spoken(text: str, start: float, end: float, run: int = 0) -> SpokenWord:
    return SpokenWord(text, start, end, 0.5, run)


def test_a_cue_is_a_sentence_and_ends_where_speech_pauses_or_two_lines_are_full() -> None:
    words = [spoken(" And", 0, 1), spoken(" Mr.", 1, 2), spoken(" Ash", 2, 3), spoken(" left.", 3, 4)]
    words += [spoken(" Then", 5, 6), spoken(" silence", 8, 9, run=1)]
    words += [spoken(" wonderful", 10 + step, 11 + step, run=2) for step in range(10)]
    found = [(cue.start, cue.end, cue.text) for cue in cues_of(words)]
    assert found[:3] == [(0, 4, "And Mr. Ash left."), (5, 6, "Then"), (8, 9, "silence")]
    assert [len(text) for _, _, text in found[3:]] == [79, 19]
    assert "".join(text for _, _, text in found[3:]).count("wonderful") == 10
    two_lines = [spoken(f" {'x' * letters}", step, step + 1) for step, letters in enumerate((27, 27, 28))]
    assert [len(cue.text) for cue in cues_of(two_lines)] == [84]
    spaced = [spoken("One ", 0, 1), spoken("two ", 1, 2), spoken("three. ", 2, 3), spoken("Four ", 3, 4)]
    assert [cue.text for cue in cues_of(spaced)] == ["One two three.", "Four"]


def test_a_cue_has_the_mean_probability_of_its_words_and_some_duration() -> None:
    words = [SpokenWord(" one", 1.0, 1.0, 0.5, 0), SpokenWord(" two", 1.0, 1.0, 1.0, 0)]
    assert list(cues_of(words)) == [Cue(1.0, 1.01, "one two", 0.75)]
    sure = [SpokenWord(" one", 1.0, 2.0, 1.0 + 1e-6, 0)]  # as rounding makes it
    assert [cue.confidence for cue in cues_of(sure)] == [1.0]


def test_words_of_joined_runs_get_the_times_of_the_sound() -> None:
    runs = [(RATE, 3 * RATE), (10 * RATE, 12 * RATE)]
    words = [SimpleNamespace(word=" a", start=0.5, end=1.0, probability=1.0)]
    words += [SimpleNamespace(word=" b", start=1.9, end=2.5, probability=1.0)]  # begins in the padding before its run
    words += [SimpleNamespace(word=" c", start=3.5, end=9.0, probability=1.0)]
    words += [SimpleNamespace(word=" d", start=1.5, end=2.4, probability=1.0)]  # ends in the next run
    found = [(word.start, word.end, word.run) for word in on_the_clock(words, runs, begin=2 * RATE)]
    assert found == [(3.5, 4.0, 0), (12.0, 12.5, 1), (13.5, 14.0, 1), (4.5, 5.0, 0)]


def test_sound_is_cut_into_blocks_between_two_runs_and_resumed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = np.ones(16 * RATE, np.float32)
    monkeypatch.setattr(speech_module, "iterate_audio", lambda path, rate, report: iter([chunk] * 10))
    asked: list[int] = []

    def runs_of(samples: Any) -> list[tuple[int, int]]:
        asked.append(len(samples) // RATE)
        return [(0, 10 * RATE), (50 * RATE, len(samples))] if len(samples) > 50 * RATE else [(0, RATE)]

    monkeypatch.setattr(speech_module, "speech_runs", runs_of)
    blocks = [(begin / RATE, len(samples) / RATE, len(runs)) for begin, samples, runs in speech_blocks(tmp_path, 0, [])]
    assert blocks == [(0, 50, 1), (50, 50, 1), (100, 50, 1), (150, 10, 1)]  # a last run may go on in the next block
    resumed = [(begin / RATE, len(samples) / RATE) for begin, samples, _ in speech_blocks(tmp_path, 50.0, [])]
    assert resumed == [(50, 50), (100, 50), (150, 10)]
    assert max(asked) <= 80  # seconds that are held at once, whatever the length of the video
    ended = [(0, 10 * RATE), (50 * RATE, 60 * RATE)]  # its pause is in the block
    monkeypatch.setattr(speech_module, "speech_runs", lambda samples: ended)
    begin, samples, runs = next(speech_blocks(tmp_path, 0, []))
    assert (begin, len(samples), runs) == (0, 64 * RATE, ended)


def test_weights_are_found_by_name_and_joined_from_their_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path))
    with pytest.raises(WatchwordError, match="weights get whisper_tiny"):
        find_weights("")
    with pytest.raises(WatchwordError, match="weights get whisper_base"):
        find_weights("whisper_base")
    assert find_weights(str(tmp_path)) == str(tmp_path)
    for packaged in WHISPER["whisper_base"]:
        packaged.path.parent.mkdir(parents=True, exist_ok=True)
        packaged.path.write_bytes(packaged.member.encode())
    assert find_weights("") == "whisper_base"
    for packaged in WHISPER["whisper_tiny"]:
        packaged.path.parent.mkdir(parents=True, exist_ok=True)
        packaged.path.touch()
    assert (find_weights(""), find_weights("whisper_tiny")) == ("whisper_base", "whisper_tiny")
    with pytest.raises(WatchwordError, match=r"is damaged: delete it"):
        read_weights("whisper_base")
    hashes = {packaged.path: packaged.sha256 for packaged in WHISPER["whisper_base"]}
    monkeypatch.setattr("watchword.lanes.whisper_weights.sha256_of", hashes.get)
    files = read_weights("whisper_base")
    assert sorted(files) == ["config.json", "model.bin", "tokenizer.json", "vocabulary.txt"]
    assert files["model.bin"] == b"data/model.bin.part1data/model.bin.part2"
    installed = tmp_path / "installed"  # as pip puts it
    installed.write_bytes(b"{}")
    monkeypatch.setattr("watchword.lanes.whisper_weights.installed_member", lambda packaged: installed)
    monkeypatch.setattr("watchword.lanes.whisper_weights.sha256_of", lambda path: hashes_of[path.name].pop(0))
    hashes_of = {"installed": [packaged.sha256 for packaged in WHISPER["whisper_tiny"]]}
    assert read_weights("whisper_tiny")["config.json"] == b"{}"


def test_other_names_are_those_of_faster_whisper_and_offline_downloads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    faster_whisper = pytest.importorskip("faster_whisper")
    here: list[str] = []
    asked: list[bool] = []

    def download_model(name: str, local_files_only: bool = False) -> str:
        asked.append(local_files_only)
        if local_files_only and name not in here:
            raise FileNotFoundError(name)
        here.append(name)
        return f"cache/{name}"

    monkeypatch.setattr(faster_whisper, "download_model", download_model)
    with pytest.raises(WatchwordError, match=r"'whisper_tny'.*whisper_tiny"):
        find_weights("whisper_tny")
    with pytest.raises(WatchwordError, match="unknown folder or speech model"):
        find_weights("no/such/folder")
    monkeypatch.setenv("WATCHWORD_OFFLINE", "1")
    with pytest.raises(WatchwordError, match="small is not installed"):
        find_weights("small")
    assert asked == [True]
    monkeypatch.delenv("WATCHWORD_OFFLINE")
    assert find_weights("small") == find_weights("small") == "cache/small"
    assert asked == [True, True, False, True]


def test_every_file_of_whisper_pins_its_archive() -> None:
    assert all(len(packaged.archive_sha256) == 64 for files in WHISPER.values() for packaged in files)


def test_what_is_missing_is_named_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchword.lanes.reading.find_spec", lambda module: None)
    monkeypatch.setattr("watchword.backbones.weights.is_present", lambda name: False)
    for options, hint in (
        (LaneOptions(speech=True), r"faster-whisper: pip install 'watchword\[speech\]'"),
        (LaneOptions(text=True), r"rapidocr: pip install 'watchword\[text\]'"),
        (LaneOptions(sounds=True), "weights get yamnet"),
    ):
        with pytest.raises(WatchwordError, match=hint):
            check_lanes(options)
    check_lanes(LaneOptions())


@pytest.mark.slow
def test_synthesised_speech_is_written_down(tmp_path: Path) -> None:
    pytest.importorskip("faster_whisper")
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed")
    try:
        fetch(*WHISPER["whisper_tiny"])
    except WatchwordError as error:
        pytest.skip(f"no weights: {error}")
    text = "Please close the window before you leave the house."
    wav = tmp_path / "speech.wav"
    subprocess.run(["espeak-ng", "-v", "en-us", "-w", str(wav), text], check=True)
    reader = speech_module.SpeechReader("whisper_tiny")
    parts = list(reader.read(wav, LaneProgress(), []))
    (cue,) = [cue for part in parts for cue in part.cues]
    assert "close the window before you leave the house" in cue.text
    assert 0 <= cue.start < 1
    assert 2 < cue.end < 4
    assert parts[-1].language == Language("en", 1.0)
    with pytest.raises(WatchwordError, match="English only"):
        speech_module.SpeechReader("whisper_tiny", "de")


# --- text ------------------------------------------------------------------------------------------------------------


def drawn(line: str, size: tuple[int, int] = (320, 176)) -> Any:
    picture = Image.new("RGB", size, (40, 60, 90))
    ImageDraw.Draw(picture).text((20, 120), line, font=ImageFont.load_default(size=20), fill=(255, 255, 255))
    return np.asarray(picture)


def test_only_a_picture_that_changed_is_read_again() -> None:
    one, other = block_means(drawn("Good morning")), block_means(drawn("Good evening"))
    noise = np.random.default_rng(0).integers(-6, 6, (176, 320, 3))
    noisy = block_means((drawn("Good morning") + noise).clip(0, 255).astype(np.uint8))
    assert has_changed(one, other)
    assert not has_changed(one, noisy)
    assert block_means(np.zeros((3, 3, 3), np.uint8)).size == 0


def test_drawn_lines_are_read_once_each_with_boxes_and_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rapidocr")
    lines = ["Good morning", "Chapter 3"]
    pictures = [drawn(line) for line in lines for _ in range(30)]
    path = write_video(tmp_path / "text.mp4", pictures, milliseconds=[100 * index for index in range(60)])
    reader = TextReader()
    seen: list[int] = []
    recognise = reader.recognise
    monkeypatch.setattr(reader, "recognise", lambda picture: seen.append(1) or recognise(picture))
    lanes: dict[Lane, LaneProgress] = {}
    monkeypatch.setattr("watchword.lanes.reading.open_reader", lambda lane, options: reader)
    for _ in read_lanes(path, LaneOptions(text=True), lanes, []):
        pass
    found = lanes["text"].all_cues
    assert [cue.text for cue in found] == lines
    times = [time for cue in found for time in (cue.start, cue.end)]
    assert times == pytest.approx([0.0, 3.0, 3.0, 6.0], abs=0.1)
    assert len(seen) == 2  # of six frames
    x0, y0, x1, y1 = found[0].box or (0, 0, 0, 0)
    assert 0 <= x0 < 0.1 < 0.3 < x1 < 0.7
    assert 0.6 < y0 < y1 < 0.9


# --- jobs ------------------------------------------------------------------------------------------------------------


def test_progress_keeps_cues_and_language_and_has_them_in_order() -> None:
    english = Language("en", 0.9)
    progress = LaneProgress().with_part(LanePart(2.0, SPEECH[1:], (TEXT[1],), english))
    progress = progress.with_part(LanePart(4.0, SPEECH[:1], (TEXT[0],)))
    assert (progress.reached, progress.language, progress.is_done) == (4.0, english, False)
    assert progress.all_cues == (TEXT[0], *SPEECH)


class FakeReader:
    """Gives its parts, as far as they are not done; it records where it began."""

    def __init__(self, *parts: LanePart, fails_after: int = 99) -> None:
        self.parts, self.fails_after = parts, fails_after
        self.began: list[float] = []

    def read(self, path: Path, progress: LaneProgress, warnings: list[str]) -> Iterator[LanePart]:
        self.began.append(progress.reached)
        for number, part in enumerate(self.parts):
            if part.reached > progress.reached:
                if number == self.fails_after:
                    raise KeyboardInterrupt
                yield part


def speech_reader(**more: Any) -> FakeReader:
    language = Language("en", 0.97)
    return FakeReader(LanePart(2.2, SPEECH[:1], language=language), LanePart(4.0, SPEECH[1:]), **more)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_video(tmp_path / "clip.mp4", [numbered(index) for index in range(100)])


def use(stub: Stub, monkeypatch: pytest.MonkeyPatch, **readers: FakeReader) -> None:
    monkeypatch.setattr(LazyCaptioner, "load", lambda self: stub)
    monkeypatch.setattr("watchword.captioning.journal.caption_video", stub.caption_video)
    monkeypatch.setattr("watchword.lanes.reading.open_reader", lambda lane, options: readers[lane])
    monkeypatch.setattr("watchword.lanes.check_lanes", lambda options: None)


def test_a_job_that_was_stopped_within_a_lane_continues_there(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = DescribeOptions(lanes=LaneOptions(speech=True, text=True))
    text_reader = FakeReader(LanePart(2.0, (), TEXT[:1]), LanePart(4.0, TEXT))

    def run(reader: FakeReader, resume: bool) -> tuple[Description, Stub]:
        stub = Stub("a man talks")
        use(stub, monkeypatch, speech=reader, text=text_reader)
        journal = Journal(tmp_path / "part", {"top": 1}, resume)
        for video in DescribeJob([clip], options, lambda: stub, journal).run():  # type: ignore[arg-type, return-value]
            assert not video.error
        return video.description("stub", options), stub

    with pytest.raises(KeyboardInterrupt):
        run(speech_reader(fails_after=1), resume=False)
    reader = speech_reader()
    found, stub = run(reader, resume=True)
    assert stub.calls == []  # the captions were done
    assert reader.began == [2.2]
    assert (found.speech, found.text, found.language) == (SPEECH, TEXT, Language("en", 0.97))
    assert [str(segment.best) for segment in found.segments] == ["a man talks"]
    again, stub = run(speech_reader(), resume=False)
    assert again == found
    assert len(stub.calls) == 1


def test_a_lane_that_is_done_is_not_read_again(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = speech_reader()
    monkeypatch.setattr("watchword.lanes.reading.open_reader", lambda lane, options: reader)
    lanes: dict[Lane, LaneProgress] = {"speech": LaneProgress(cues=SPEECH, is_done=True)}  # of an earlier description
    assert list(read_lanes(clip, LaneOptions(speech=True), lanes, [])) == []
    assert (reader.began, lanes["speech"].cues) == ([], SPEECH)
    lanes.clear()
    for _ in range(2):
        assert list(read_lanes(clip, LaneOptions(speech=True), lanes, [])) or reader.began == [0.0]
    assert lanes["speech"].is_done


def test_files_of_the_lanes_stand_beside_that_of_the_captions(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Stub("a man talks"), monkeypatch, speech=speech_reader())
    done = RUN.invoke(app, ["describe", str(clip), "--speech", "--output", str(tmp_path / "clip.srt")])
    assert done.exit_code == 0, done.output
    assert "A man talks." in (tmp_path / "clip.srt").read_text()
    assert (tmp_path / "clip.speech.srt").read_text().startswith("1\n00:00:00,500 --> 00:00:02,000\nGood morning &")
    printed = RUN.invoke(app, ["describe", str(clip), "--speech"]).stdout.splitlines()
    assert printed[0] == "a man talks (0.50)"
    assert printed[1:] == [
        "0:00:00 - 0:00:02  said: Good morning & welcome. (0.90)",
        "0:00:02 - 0:00:04  said: The dog sleeps. (0.80)",
    ]
    refused = RUN.invoke(app, ["describe", str(clip), "--speech", "--format", "srt"])
    assert "one lane a file" in str(refused.exception)
    assert not any(tmp_path.glob("*.part"))


def test_speech_that_was_not_asked_for_is_hinted_at(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sounds = FakeReader(LanePart(4.0, (Cue(0.0, 4.0, "Speech", 0.9),)))
    use(Stub("a man talks"), monkeypatch, sounds=sounds)
    done = RUN.invoke(app, ["describe", str(clip), "--sounds"])
    assert "clip.mp4 has speech: --speech writes it down" in done.stderr
    assert "heard: Speech (0.90)" in done.stdout


# --- writers ---------------------------------------------------------------------------------------------------------


def test_the_codec_keeps_every_lane() -> None:
    assert description_from_dict(json.loads(json.dumps(description_to_dict(described())))) == described()
    plain = replace(described(), lanes={}, language=None)
    assert description_from_dict(description_to_dict(plain)) == plain
    assert not {"speech", "text", "sounds", "language"} & set(description_to_dict(plain))


def test_json_has_the_lanes_that_were_read_and_follows_its_schema() -> None:
    schema = json.loads((ROOT / "docs/reference/describe.schema.json").read_text())
    document = json.loads(as_json([described(), replace(described("plain.mp4"), lanes={}, language=None)]))
    Draft202012Validator(schema).validate(document)
    first, second = document["videos"]
    assert first["speech"][1] == {"start": 2.5, "end": 4.0, "text": "The dog sleeps.", "confidence": 0.8}
    assert first["text"][0]["box"] == [0.1, 0.2, 0.5, 0.25]
    assert (first["sounds"], first["language"]) == ([], {"code": "en", "probability": 0.97})
    assert not {"speech", "text", "sounds", "language"} & set(second)


def test_csv_and_text_have_a_row_for_each_cue() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv([described()]))))
    assert [row["lane"] for row in rows] == ["captions", "speech", "speech", "text", "text"]
    assert rows[-1]["caption"] == "'=EXIT"  # no spreadsheet runs it
    assert "0:00:00 - 0:00:03  written: HARBOUR (0.99)" in as_text([described()]).splitlines()
    assert "said: Good morning &amp; welcome." in as_html(described())
    assert "<small>confidence 0.50</small>" in as_html(described())
    guess = replace(described(), segments=(Segment(0.0, 4.0, (said("a dog", 0.21),)),))
    assert "<small>unsure, 0.21: this is a guess</small>" in as_html(guess)


def test_subtitles_of_a_lane_do_not_overlap() -> None:
    assert "1\n00:00:00.500 --> 00:00:02.000\nGood morning &amp; welcome.\n" in vtt(described(), "speech")
    assert vtt(described(), "speech").startswith("WEBVTT\n\nNOTE subtitles of talk.mp4")
    assert vtt(described()).startswith("WEBVTT\n\nNOTE descriptions of talk.mp4")
    blocks = srt(described(), "text").split("\n\n")
    assert [block.split("\n", 1)[1].strip() for block in blocks] == [
        "00:00:00,000 --> 00:00:02,000\nHARBOUR",
        "00:00:02,000 --> 00:00:03,000\nHARBOUR\n=EXIT",
        "00:00:03,000 --> 00:00:04,000\n=EXIT",
    ]
    assert srt(described(), "sounds") == ""


# --- the library -----------------------------------------------------------------------------------------------------


@pytest.fixture
def library(tmp_path: Path) -> Library:
    library = Library(tmp_path / "library.db")
    library.add(described(), name="talk.mp4", identity="talk", source=None, explanation={"version": 2})
    add(library, "a dog runs", "a harbour at night", name="beach.mp4")
    return library


def hits(library: Library, query: str) -> list[tuple[str, str]]:
    found = [(hit.lane, hit.caption) for hit in library.search(query)]
    assert library.count_hits(query) == len(found)
    return sorted(found)


def test_a_search_covers_all_lanes_and_prefixes_narrow_it(library: Library) -> None:
    talk, runs, sleeps = ("captions", "a man talks about a dog"), ("captions", "a dog runs"), ("speech", SPEECH[1].text)
    assert hits(library, "dog") == [runs, talk, sleeps]
    assert hits(library, "said:dogs") == hits(library, "SAID: dog") == [sleeps]
    assert hits(library, "seen:dog") == [runs, talk]
    assert hits(library, "harbour") == [("captions", "a harbour at night"), ("text", "HARBOUR")]
    assert hits(library, "written:harb") == [("text", "HARBOUR")]
    assert hits(library, 'said:"morning welcome"') == [("speech", SPEECH[0].text)]
    assert hits(library, "heard:dog") == hits(library, "said:") == []
    (hit,) = library.search("said:sleeping")
    assert (hit.start, hit.pieces) == (2.5, (("The dog ", False), ("sleeps", True), (".", False)))
    assert hit.key_seconds == 3.25  # the picture of a cue is that of its middle
    barks = replace(described(), lanes={"sounds": (Cue(0.0, 2.0, "Bark", 0.9),), "text": (Cue(0.0, 2.0, "BARK", 0.9),)})
    library.add(barks, name="bark.mp4", identity="bark", source=None, explanation=None)
    assert hits(library, "heard:bark") == [("sounds", "Bark")]


def test_several_prefixes_ask_for_one_video(library: Library) -> None:
    talk, sleeps = ("captions", "a man talks about a dog"), ("speech", SPEECH[1].text)
    assert hits(library, "seen:dog said:sleeps") == [talk, sleeps]
    assert hits(library, "dog said:sleeps") == [talk, sleeps]  # a row that answers both is one hit
    assert hits(library, "seen:runs said:sleeps") == hits(library, "seen:sleeps said:dog") == []
    marked = [piece for hit in library.search("dog said:sleeps") for piece, is_match in hit.pieces if is_match]
    assert marked == ["dog", "dog"]  # of a hit that answers both, what the first one wants
    assert hits(library, "dog -said:sleeps") == [("captions", "a dog runs")]
    assert hits(library, "dog -said:runs") == hits(library, "dog")  # it is seen, not said
    assert hits(library, "said:dog -sleeps") == []


def test_a_query_is_read_lane_by_lane() -> None:
    queries = Query.read_all('cat said:"good day" all written:ex')
    assert [(query.lane, query.text) for query in queries] == [
        (None, "cat"),
        ("speech", "good day all"),
        ("text", "ex"),
    ]
    assert [term.is_prefix for query in queries for term in query.wanted] == [False, False, False, True]
    (query,) = Query.read_all("he said:")
    assert (query.lane, query.text) == (None, "he")


def test_a_long_text_is_found_as_a_snippet(library: Library) -> None:
    text = " ".join(["word"] * 100 + ["needle"] + ["word"] * 100)
    long = replace(described(), lanes={"speech": (Cue(0.0, 60.0, text, 0.9),)})
    library.add(long, name="long.mp4", identity="long", source=None, explanation=None)
    (hit,) = library.search("needle")
    assert ("needle", True) in hit.pieces
    assert 100 < len("".join(piece for piece, _ in hit.pieces)) < 250


def test_the_library_keeps_lanes_language_and_counts(library: Library) -> None:
    assert library.description(1) == described()
    assert [row.num_segments for row in library.videos()] == [2, 1]
    assert library.description(2).lanes == {}
    library.remove(1)
    assert hits(library, "sleeps") == []


class Letters:
    """An encoder for tests: texts with the same letters are near."""

    name = "letters"

    def encode(self, captions: Any) -> Any:
        rows = np.array([[text.lower().count(chr(97 + letter)) for letter in range(26)] for text in captions], "f4")
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_semantic_search_is_narrowed_too(library: Library) -> None:
    library.encoder = Letters
    assert {hit.lane for hit in library.search("sleep", semantic=True)} >= {"text", "speech"}
    assert {hit.lane for hit in library.search("said:sleep", semantic=True)} == {"speech"}


def test_a_library_of_version_2_is_upgraded_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    add(Library(path), "a dog runs", "a man sings", explanation={"version": 2, "kept": True})
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE videos DROP COLUMN lanes")
        connection.execute("ALTER TABLE segments DROP COLUMN lane")
        connection.executescript("DROP TABLE signatures; DROP TABLE pending; PRAGMA user_version = 2")
    connection.close()
    library = Library(path)
    assert [str(segment.best) for segment in library.description(1).segments] == ["a dog runs", "a man sings"]
    assert library.explanation(1) == {"version": 2, "kept": True}
    assert hits(library, "seen:dogs") == [("captions", "a dog runs")]
    library.add(described(), name="talk.mp4", identity="talk", source=None, explanation=None)
    assert hits(library, "said:sleeps") == [("speech", SPEECH[1].text)]


def test_known_videos_get_new_lanes_and_keep_their_captions(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub, path = Stub("a man talks"), tmp_path / "mine.db"
    use(stub, monkeypatch, speech=speech_reader(), text=FakeReader(LanePart(4.0, TEXT)))

    def library_add(*options: str) -> str:
        done = RUN.invoke(app, ["library", "add", str(clip), *options, "--library", str(path)])
        assert done.exit_code == 0, done.output
        return done.output

    library_add("--text")
    explanation = Library(path).explanation(1)
    assert "2 of speech" in library_add("--speech")
    assert "1 known already" in library_add("--speech", "--text")
    assert len(stub.calls) == 1  # captioned once
    found = Library(path).description(1)
    assert (found.caption, found.speech, found.text) == ("a man talks", SPEECH, TEXT)
    assert Library(path).explanation(1) == explanation
    shown = RUN.invoke(app, ["search", "said:welcome", "--library", str(path)]).stdout
    assert shown == "clip.mp4  0:00:00  said: Good morning & welcome. (0.90)\n"


# --- the server ------------------------------------------------------------------------------------------------------


def test_the_server_gives_lanes_their_files_and_hits(tmp_path: Path) -> None:
    service, _ = fake_service(tmp_path)
    library = service.storage.library
    library.add(described(), name="talk.mp4", identity="talk", source=None, explanation=None)
    with serving(service) as client:
        video = client.get("/api/videos/1").json
        assert [cue["text"] for cue in video["lanes"]["speech"]] == [cue.text for cue in SPEECH]
        assert video["lanes"]["text"][0]["box"] == [0.1, 0.2, 0.5, 0.25]
        assert video["language"] == {"code": "en", "probability": 0.97}
        track = client.get("/api/videos/1/speech.vtt")
        assert track.headers["content-type"].startswith("text/vtt")
        assert b"Good morning &amp; welcome." in track.body
        file = client.get("/api/videos/1/text.srt?download=1")
        assert 'filename="talk.text.srt"' in file.headers["content-disposition"]
        (hit,) = client.get("/api/search?q=said:sleeps").json["hits"]
        assert (hit["lane"], hit["start"]) == ("speech", 2.5)


def test_the_caption_process_reads_the_lanes_and_its_progress_only_grows(
    clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = Stub("a man talks", "a dog sleeps")
    use(stub, monkeypatch, speech=speech_reader(), text=FakeReader(LanePart(4.0, TEXT)))
    monkeypatch.setattr(
        "watchword.server.caption_process.caption_video",
        lambda *some, **more: stub.caption_video(*some, start=0, **more),
    )
    handler = CaptionHandler(None, LaneOptions(speech=True, text=True))
    messages = list(handler.describe(stub, clip, "talk.mp4"))  # type: ignore[arg-type]
    reached = [message["reached"] for message in messages]
    assert reached == sorted(reached)
    assert reached[1] == pytest.approx(4.0 / 3)  # a third of the work: the captions
    assert {message["confidence"] for message in messages} == {0.5}
    found = description_from_dict(messages[-1]["description"])
    assert (found.speech, found.text) == (SPEECH, TEXT)
