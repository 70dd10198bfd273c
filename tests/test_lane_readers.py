"""The readers of speech, text and sounds with networks that tests write: thresholds, languages, resuming."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.videos import numbered, write_video
from watchword.errors import WatchwordError
from watchword.features.segments import From
from watchword.features.specs import AudioSpec
from watchword.lanes import LanePart, LaneProgress, screen_text
from watchword.lanes import sounds as sounds_module
from watchword.lanes import speech as speech_module
from watchword.lanes.screen_text import TextReader, has_changed
from watchword.lanes.sounds import SoundReader
from watchword.lanes.speech import RATE, SpeechReader
from watchword.lanes.tracking import CueTracker, Sighting
from watchword.types import Cue, Language
from watchword.video import Rate
from watchword.video.transforms import Within

# --- cues ------------------------------------------------------------------------------------------------------------


def test_of_many_readings_of_a_line_the_likely_one_is_kept() -> None:
    tracker = CueTracker(gap=1.0, similarity=lambda one, other: 1.0)
    for time in range(100):
        reading = "Exit" if time % 2 else f"Ex1t {time}"
        tracker.see(float(time), [Sighting(reading, 0.9)])
        assert len(tracker.open[0].readings) <= 16
    assert tracker.finish(100.0) == (Cue(0.0, 100.0, "Exit", 0.9),)


def test_of_equally_frequent_readings_the_surer_one_is_kept_at_its_best() -> None:
    tracker = CueTracker(gap=1.0, similarity=lambda one, other: 1.0)
    for time, (reading, score) in enumerate([("Ex1t", 0.8), ("Exit", 0.95), ("Ex1t", 0.8), ("Exit", 0.9)]):
        tracker.see(float(time), [Sighting(reading, score)])
    assert tracker.finish(4.0) == (Cue(0.0, 4.0, "Exit", 0.95),)


def test_a_text_that_changes_bit_by_bit_is_compared_with_its_latest_reading() -> None:
    tracker = CueTracker(gap=9.0, similarity=screen_text.similarity, threshold=0.7)
    for time, reading in enumerate(["abcdefgh", "cdefghij", "efghijkl", "ghijklmn"]):
        tracker.see(float(time), [Sighting(reading, 0.9)])
    assert len(tracker.finish(4.0)) == 1


# --- speech ----------------------------------------------------------------------------------------------------------


class FakeWhisper:
    """Says one word in each block; it records what it gets."""

    def __init__(self, **problems: float) -> None:
        self.problems = problems
        self.guesses: list[int] = []
        self.heard: list[tuple[int, str]] = []
        self.settings: dict[str, Any] = {}

    def detect_language(self, samples: Any) -> tuple[str, float, list[Any]]:
        self.guesses.append(len(samples) // RATE)
        return "de", 0.8, []

    def transcribe(self, samples: Any, language: str, **settings: Any) -> tuple[list[Any], None]:
        self.heard.append((len(samples) // RATE, language))
        self.settings = settings
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
    guesses = iter([("ru", 0.49, []), ("en", 0.5, [])])
    monkeypatch.setattr(network, "detect_language", lambda samples: next(guesses))
    reader = speech_reader(monkeypatch, network, [[(0, 1)]] * 3)
    parts = list(reader.read(Path("talk.mp4"), LaneProgress(), []))
    assert [language for _, language in network.heard] == ["en", "en"]
    assert [(len(part.cues), part.language) for part in parts][:2] == [(0, None), (1, Language("en", 0.5))]


def test_speech_of_which_nothing_is_clear_has_no_language(monkeypatch: pytest.MonkeyPatch) -> None:
    network = FakeWhisper()
    monkeypatch.setattr(network, "transcribe", lambda samples, **settings: ([], None))
    (part,) = speech_reader(monkeypatch, network, [[(0, 1)]]).read(Path("talk.mp4"), LaneProgress(), [])
    assert (part.cues, part.language) == ((), None)


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        ({"avg_logprob": -1.1}, "ja"),
        ({"compression_ratio": 2.5}, "ja"),
        ({"avg_logprob": -1.0, "compression_ratio": 2.4}, "ja nein"),
    ],
)
def test_unlikely_and_repeated_speech_is_left_out(
    monkeypatch: pytest.MonkeyPatch, problem: dict[str, float], text: str
) -> None:
    reader = speech_reader(monkeypatch, FakeWhisper(**problem), [[(0, 1)]])
    (part,) = reader.read(Path("talk.mp4"), LaneProgress(), [])
    assert [cue.text for cue in part.cues] == [text]


def test_the_recogniser_guesses_nothing_anew_and_gives_times_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    network = FakeWhisper()
    list(speech_reader(monkeypatch, network, [[(0, 1)]]).read(Path("talk.mp4"), LaneProgress(), []))
    assert network.settings == {"temperature": 0.0, "condition_on_previous_text": False, "word_timestamps": True}


def test_runs_of_speech_are_padded_and_no_longer_than_whisper_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    vad = pytest.importorskip("faster_whisper.vad")
    asked: list[Any] = []

    def found(samples: Any, options: Any) -> list[dict[str, Any]]:
        asked.append(options)
        return [{"start": np.int64(8000), "end": 16000.0}]

    monkeypatch.setattr(vad, "get_speech_timestamps", found)
    assert speech_module.speech_runs(np.zeros(RATE, np.float32)) == [(8000, 16000)]
    (options,) = asked
    assert (options.min_silence_duration_ms, options.speech_pad_ms) == (500, 400)
    assert options.max_speech_duration_s + 2 * options.speech_pad_ms / 1000 < 30  # a window of Whisper


def test_a_recogniser_is_loaded_with_the_threads_and_the_language_that_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faster_whisper = pytest.importorskip("faster_whisper")
    loaded: list[dict[str, Any]] = []
    languages = ["en", "de"]

    def network(name: str, **settings: Any) -> Any:
        loaded.append(settings)
        if not languages:
            raise RuntimeError("no model.bin\nmore")
        return SimpleNamespace(supported_languages=list(languages))

    monkeypatch.setattr(faster_whisper, "WhisperModel", network)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert SpeechReader(str(tmp_path)).language is None  # guessed
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert SpeechReader(str(tmp_path), "de").language == Language("de", 1.0)
    assert [one["cpu_threads"] for one in loaded] == [0, 4]  # 0: as OMP_NUM_THREADS says
    with pytest.raises(WatchwordError, match="no language 'dee'; did you mean 'de'"):
        SpeechReader(str(tmp_path), "dee")
    languages.pop()
    assert SpeechReader(str(tmp_path)).language == Language("en", 1.0)
    with pytest.raises(WatchwordError, match="no language 'de'; it reads English only"):
        SpeechReader(str(tmp_path), "de")
    languages.clear()
    with pytest.raises(WatchwordError, match=r"cannot load the speech recogniser .*: no model.bin$"):
        SpeechReader(str(tmp_path))


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


def test_the_network_gets_blue_first_and_boxes_stay_inside_the_picture() -> None:
    reader = text_reader(("Exit", 0.9))
    asked: list[Any] = []
    boxes = np.array([[[-8, -8], [200, 0], [200, 100], [0, 100]]], float)
    found = iter([SimpleNamespace(txts=("Exit",), scores=(0.9,), boxes=boxes), SimpleNamespace(txts=None)])
    reader.network = lambda picture: asked.append(picture) or next(found)
    red = np.zeros((80, 160, 3), np.uint8)
    red[..., 0] = 255
    assert [sighting.box for sighting in reader.recognise(red)] == [(0, 0, 1, 1)]
    assert asked[0][0, 0].tolist() == [0, 0, 255]
    assert reader.recognise(red) == []


def test_lines_are_found_on_small_pictures_by_as_many_threads_as_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rapidocr = pytest.importorskip("rapidocr")
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(rapidocr, "RapidOCR", lambda params: asked.append(params))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    TextReader()
    monkeypatch.delenv("OMP_NUM_THREADS")
    TextReader()
    assert [one.pop("EngineConfig.onnxruntime.intra_op_num_threads") for one in asked] == [1, -1]
    wanted = {"Det.limit_type": "max", "Det.limit_side_len": 800, "Global.use_cls": False}
    assert asked[0].items() >= wanted.items()


def watched(monkeypatch: pytest.MonkeyPatch, *frames: str) -> tuple[list[LanePart], list[int]]:
    """The parts of a video with a frame a second, whose pictures differ where their lines do; and the pictures read."""
    shades = list(dict.fromkeys(frames))
    read: list[int] = []

    def recognise(picture: Any) -> list[Sighting]:
        shade = int(picture[0, 0, 0])
        read.append(shade)
        return [Sighting(shades[shade // 20], 0.9)] if shades[shade // 20] else []

    def blocks(path: Path, plan: From, transform: Within, chunk: int, report: Any) -> Iterator[Any]:
        assert (plan, transform) == (From(Rate(1.0), 0.0), Within(1280))
        for begin in range(0, len(frames), chunk):
            times = np.arange(begin, min(begin + chunk, len(frames)), dtype=float)
            pictures = [np.full((64, 64, 3), 20 * shades.index(frames[int(time)]), np.uint8) for time in times]
            yield SimpleNamespace(times=times, pictures=pictures)

    monkeypatch.setattr(screen_text, "read_timeline", lambda path, report: SimpleNamespace(end=float(len(frames))))
    monkeypatch.setattr(screen_text, "iterate_frames", blocks)
    reader = text_reader(("", 0.0))
    monkeypatch.setattr(reader, "recognise", recognise)
    return list(reader.read(Path("clip.mp4"), LaneProgress(), [])), read


def test_a_line_goes_on_while_it_is_missed_for_two_seconds_or_read_in_other_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts, read = watched(monkeypatch, "Exit", "", "", "EXIT.", "EXIT.", "", "", "", "Exit", "Taxi")
    assert read == [0, 20, 40, 20, 0, 60]  # what did not change is not read again
    cues = sorted((cue.start, cue.end) for part in parts for cue in part.cues)
    assert cues == [(0.0, 5.0), (8.0, 9.0), (9.0, 10.0)]
    assert [part.reached for part in parts] == [7.5, 9.5, 10.0]
    assert [(cue.start, cue.end) for cue in parts[0].open_cues] == [(0.0, 5.0)]
    assert [(cue.start, cue.end) for cue in parts[1].open_cues] == [(8.0, 9.0), (9.0, 9.5)]


def test_a_picture_that_changed_little_or_in_few_places_is_not_read_again() -> None:
    before = np.full((8, 8), 100.0)
    assert not has_changed(before, before + 7)  # light that fades
    three, four = before.copy(), before.copy()
    three[0, :3] += 9
    four[0, :4] -= 9
    assert (has_changed(before, three), has_changed(before, four)) == (False, True)


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


def test_the_windows_of_the_network_are_half_a_second_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    network = SimpleNamespace(class_names=NAMES, mel=SimpleNamespace(step_samples=7680))
    extraction = SimpleNamespace(
        job=SimpleNamespace(specs={"audio": AudioSpec()}), networks=SimpleNamespace(get=lambda *some: network)
    )
    monkeypatch.setattr(sounds_module, "prepare", lambda *some: None)
    monkeypatch.setattr(sounds_module, "Extraction", lambda job: extraction)
    assert SoundReader().step == 0.48


def test_windows_that_were_heard_before_a_stop_are_passed_over() -> None:
    reader = sound_reader({"Dog": 0.9}, {"Dog": 0.9}, {"Rain": 0.9})
    open_cues = (Cue(0.0, 0.8, "Music", 0.9), Cue(0.2, 1.0, "Rain", 0.9))
    assert sounds(reader, LaneProgress(1.0, open_cues=open_cues)) == [(0.0, 0.8, "Music"), (0.2, 1.5, "Rain")]
