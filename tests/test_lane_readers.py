"""The readers of speech, text and sounds with networks that tests write: thresholds, languages, resuming."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.videos import numbered, write_video
from watchword.lanes import LaneProgress
from watchword.lanes import speech as speech_module
from watchword.lanes.screen_text import TextReader
from watchword.lanes.sounds import SoundReader
from watchword.lanes.speech import RATE, SpeechReader
from watchword.lanes.tracking import CueTracker, Sighting
from watchword.types import Cue, Language

# --- cues ------------------------------------------------------------------------------------------------------------


def test_of_many_readings_of_a_line_the_likely_one_is_kept() -> None:
    tracker = CueTracker(gap=1.0, similarity=lambda one, other: 1.0)
    for time in range(100):
        reading = "Exit" if time % 2 else f"Ex1t {time}"
        tracker.see(float(time), [Sighting(reading, 0.9)])
        assert len(tracker.open[0].readings) <= 16
    assert tracker.finish(100.0) == (Cue(0.0, 100.0, "Exit", 0.9),)


# --- speech ----------------------------------------------------------------------------------------------------------


class FakeWhisper:
    """Says one word for each second of sound; it records what it gets."""

    def __init__(self, **problems: float) -> None:
        self.problems = problems
        self.guesses: list[int] = []
        self.heard: list[tuple[int, str]] = []

    def detect_language(self, samples: Any) -> tuple[str, float, list[Any]]:
        self.guesses.append(len(samples) // RATE)
        return "de", 0.8, []

    def transcribe(self, samples: Any, language: str, **settings: Any) -> tuple[list[Any], None]:
        self.heard.append((len(samples) // RATE, language))
        clear = {"avg_logprob": -0.3, "compression_ratio": 1.2}
        word = SimpleNamespace(word=" ja", start=0.25, end=0.75, probability=0.9)
        doubtful = SimpleNamespace(word=" nein", start=0.75, end=0.9, probability=0.9)
        segments = [SimpleNamespace(words=[word], **clear)]
        segments += [SimpleNamespace(words=[doubtful], **(clear | self.problems))] if self.problems else []
        return segments, None


def speech_reader(monkeypatch: pytest.MonkeyPatch, network: FakeWhisper, runs: list[list[tuple[int, int]]]) -> Any:
    """Blocks of ten seconds, each with its runs of speech."""

    def blocks(path: Path, start: float, warnings: list[str]) -> Iterator[tuple[int, Any, list[tuple[int, int]]]]:
        for number, some in enumerate(runs):
            if number * 10 >= start:
                yield number * 10 * RATE, np.zeros(10 * RATE, np.float32), [(a * RATE, b * RATE) for a, b in some]

    monkeypatch.setattr(speech_module, "speech_blocks", blocks)
    reader = SpeechReader.__new__(SpeechReader)
    reader.network, reader.language = network, None
    return reader


def test_only_runs_of_speech_are_recognised_in_the_language_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    network = FakeWhisper()
    reader = speech_reader(monkeypatch, network, [[], [(1, 3), (5, 6)], [(2, 4)]])
    parts = list(reader.read(Path("talk.mp4"), LaneProgress(), []))
    assert network.heard == [(3, "de"), (2, "de")]  # seconds of speech, without the silence around them
    assert network.guesses == [3]  # once for the video
    assert [part.reached for part in parts] == [10, 20, 30]
    assert [part.language for part in parts] == [None, Language("de", 0.8), Language("de", 0.8)]
    assert [[(cue.start, cue.text) for cue in part.cues] for part in parts] == [[], [(11.25, "ja")], [(22.25, "ja")]]


def test_a_resumed_recognition_keeps_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    network = FakeWhisper()
    reader = speech_reader(monkeypatch, network, [[(0, 1)], [(1, 3)]])
    parts = list(reader.read(Path("talk.mp4"), LaneProgress(10.0, language=Language("fr", 0.7)), []))
    assert (network.heard, network.guesses) == ([(2, "fr")], [])
    assert [part.language for part in parts] == [Language("fr", 0.7)]


def test_speech_of_a_doubtful_language_is_left_out_and_the_next_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    network = FakeWhisper()
    guesses = iter([("ru", 0.49, []), ("en", 0.51, [])])
    monkeypatch.setattr(network, "detect_language", lambda samples: next(guesses))
    reader = speech_reader(monkeypatch, network, [[(0, 1)]] * 3)
    parts = list(reader.read(Path("talk.mp4"), LaneProgress(), []))
    assert [language for _, language in network.heard] == ["en", "en"]
    assert [(len(part.cues), part.language) for part in parts][:2] == [(0, None), (1, Language("en", 0.51))]


def test_speech_of_which_nothing_is_clear_has_no_language(monkeypatch: pytest.MonkeyPatch) -> None:
    network = FakeWhisper()
    monkeypatch.setattr(network, "transcribe", lambda samples, **settings: ([], None))
    (part,) = speech_reader(monkeypatch, network, [[(0, 1)]]).read(Path("talk.mp4"), LaneProgress(), [])
    assert (part.cues, part.language) == ((), None)


@pytest.mark.parametrize("problem", [{"avg_logprob": -1.1}, {"compression_ratio": 2.5}])
def test_unlikely_and_repeated_speech_is_left_out(monkeypatch: pytest.MonkeyPatch, problem: dict[str, float]) -> None:
    reader = speech_reader(monkeypatch, FakeWhisper(**problem), [[(0, 1)]])
    (part,) = reader.read(Path("talk.mp4"), LaneProgress(), [])
    assert [cue.text for cue in part.cues] == ["ja"]


# --- text ------------------------------------------------------------------------------------------------------------


def text_reader(*lines: tuple[str, float]) -> TextReader:
    """Every picture has these lines, with these scores."""
    reader = TextReader.__new__(TextReader)
    boxes = np.array([[[8, 16], [64, 16], [64, 40], [8, 48]]] * len(lines), float)
    texts, scores = zip(*lines, strict=True)
    reader.network = lambda picture: SimpleNamespace(txts=texts, scores=scores, boxes=boxes)
    return reader


def test_unlikely_lines_and_single_letters_are_left_out() -> None:
    reader = text_reader(("Exit", 0.76), ("noise", 0.74), ("I", 0.99), ("- 7 -", 0.99), ("42 ", 0.8))
    found = reader.recognise(np.zeros((80, 160, 3), np.uint8))
    assert [sighting.text for sighting in found] == ["Exit", "42"]
    assert found[0].box == pytest.approx((0.05, 0.2, 0.4, 0.6))
    assert reader.recognise(np.zeros((4, 160, 3), np.uint8)) == []  # too small for the network


def test_a_resumed_reading_begins_where_it_stopped_and_keeps_open_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_video(tmp_path / "clip.mp4", [numbered(index) for index in range(100)])  # four seconds
    reader = text_reader(("Exit", 0.9))
    seen: list[float] = []
    see = CueTracker.see
    monkeypatch.setattr(CueTracker, "see", lambda self, time, some: seen.append(time) or see(self, time, some))
    parts = list(reader.read(path, LaneProgress(2.0, open_cues=(Cue(0.0, 2.0, "Exit", 0.9),)), []))
    assert min(seen) >= 1.9
    assert [(cue.start, cue.text) for cue in parts[-1].cues] == [(0.0, "Exit")]
    assert parts[-1].cues[0].end == pytest.approx(4.0, abs=0.1)


# --- sounds ----------------------------------------------------------------------------------------------------------

NAMES = ("Speech", "Music", "Silence", "Dog", "Rain")


def sound_reader(*rows: dict[str, float]) -> Any:
    """A window every half second, with the scores of a row."""
    scores = torch.tensor([[row.get(name, 0.0) for name in NAMES] for row in rows])
    times = np.arange(len(rows)) * 0.5 + 0.25
    extracted = SimpleNamespace(times=times, layers={"scores": scores})
    reader = SoundReader.__new__(SoundReader)
    reader.extraction = SimpleNamespace(audio=lambda *some: iter([extracted]))  # type: ignore[assignment]
    reader.spec, reader.names, reader.step = None, NAMES, 0.5  # type: ignore[assignment]
    return reader


def sounds(reader: Any, progress: LaneProgress | None = None) -> list[tuple[float, float, str]]:
    parts = list(reader.read(Path("clip.mp4"), progress or LaneProgress(), []))
    return sorted((cue.start, cue.end, cue.text) for part in parts for cue in part.cues)


def test_the_three_likeliest_sounds_of_a_window_are_cues_and_silence_is_none() -> None:
    loud = {"Speech": 0.9, "Music": 0.8, "Dog": 0.7, "Rain": 0.6}
    reader = sound_reader(loud, {"Speech": 0.6, "Dog": 0.49}, {"Silence": 1.0}, {"Speech": 0.51})
    assert sounds(reader) == [(0.0, 0.5, "Dog"), (0.0, 0.5, "Music"), (0.0, 2.0, "Speech")]


def test_a_gap_of_a_second_and_a_half_ends_a_sound() -> None:
    dog, nothing = {"Dog": 0.9}, dict[str, float]()
    assert sounds(sound_reader(dog, nothing, nothing, dog)) == [(0.0, 2.0, "Dog")]
    assert sounds(sound_reader(dog, nothing, nothing, nothing, dog)) == [(0.0, 0.5, "Dog"), (2.0, 2.5, "Dog")]


def test_windows_that_were_heard_before_a_stop_are_passed_over() -> None:
    reader = sound_reader({"Dog": 0.9}, {"Dog": 0.9}, {"Rain": 0.9})
    open_cues = (Cue(0.0, 0.8, "Music", 0.9), Cue(0.2, 1.0, "Rain", 0.9))
    assert sounds(reader, LaneProgress(1.0, open_cues=open_cues)) == [(0.0, 0.8, "Music"), (0.2, 1.5, "Rain")]
