"""Speech to text: Silero's speech detection, then Whisper by faster-whisper, in blocks of a minute.

Only what it finds is recognised: Whisper invents words for silence and music. The parts with
speech are joined, because Whisper reads 30 seconds at a time at the same cost however little of it is speech.
"""

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watchword.errors import WatchwordError, did_you_mean
from watchword.features.extraction import ahead
from watchword.lanes.reading import LanePart, LaneProgress
from watchword.lanes.whisper_weights import WHISPER, find_weights, read_weights
from watchword.types import Cue, Language
from watchword.video import iterate_audio

RATE = 16_000
BLOCK_SECONDS = 60.0
MAX_RUN = 28.0  # seconds: a longer run of speech is split at its last short pause
MIN_PAUSE = 0.5  # seconds between two runs
PAD = 0.4  # seconds that are kept around a run
MAX_REPETITION = 2.4  # compression ratio of a text that repeats itself, as Whisper's authors chose it
MIN_LOG_PROBABILITY = -1.0  # a token, also theirs: less is guessed
MIN_LANGUAGE_PROBABILITY = 0.5  # of a guess, as faster-whisper chose it
MAX_LETTERS = 84  # of a cue: two lines of a subtitle
MIN_WORDS = 3  # of a sentence: fewer may be an abbreviation
SENTENCE_ENDS = (".", "?", "!", "。", "？", "！")
MAX_THREADS = 4

Samples = NDArray[np.float32]
Run = tuple[int, int]  # samples


class SpeechReader:
    """Speech as cues, in the language that is told, or guessed once from the first clear speech of a video."""

    def __init__(self, model: str = "", language: str = "") -> None:
        from faster_whisper import WhisperModel

        name = find_weights(model)
        files = {"files": read_weights(name)} if name in WHISPER else {}
        threads = 0 if "OMP_NUM_THREADS" in os.environ else min(MAX_THREADS, os.cpu_count() or 1)
        try:
            self.network = WhisperModel(name, device="cpu", compute_type="int8", cpu_threads=threads, **files)
        except Exception as error:  # of CTranslate2, of the hub, of a file that is no network
            raise WatchwordError(f"cannot load the speech recogniser {name}: {str(error).splitlines()[0]}") from error
        self.language = self._told(language, name)

    def _told(self, code: str, name: str) -> Language | None:
        known = self.network.supported_languages
        if code and code not in known:
            hint = "; it reads English only, whisper_base reads 99 languages" if len(known) == 1 else ""
            raise WatchwordError(f"{name} has no language {code!r}{hint or did_you_mean(code, known)}")
        return Language(code or known[0], 1.0) if code or len(known) == 1 else None

    def read(self, path: Path, progress: LaneProgress, warnings: list[str]) -> Iterator[LanePart]:
        language = progress.language or self.language
        for begin, samples, runs in speech_blocks(path, progress.reached, warnings):
            cues: tuple[Cue, ...] = ()
            if runs:
                joined = np.concatenate([samples[start:end] for start, end in runs])
                language = language or self._guess(joined)
                cues = tuple(self._recognise(joined, runs, begin, language)) if language else ()
            yield LanePart((begin + len(samples)) / RATE, cues, language=language if cues else None)

    def _guess(self, joined: Samples) -> Language | None:
        """None where no language is likely: singing, shouts and noise, for which Whisper invents words."""
        code, probability, _ = self.network.detect_language(joined)
        return Language(code, float(probability)) if probability >= MIN_LANGUAGE_PROBABILITY else None

    def _recognise(self, joined: Samples, runs: Sequence[Run], begin: int, language: Language) -> Iterator[Cue]:
        segments, _ = self.network.transcribe(
            joined,
            language=language.code,
            temperature=0.0,  # others are random, and slow where nothing can be understood
            condition_on_previous_text=False,  # one mistake is not repeated for minutes
            word_timestamps=True,
        )
        clear = (
            segment
            for segment in segments
            if segment.avg_logprob >= MIN_LOG_PROBABILITY and segment.compression_ratio <= MAX_REPETITION
        )
        words = (word for segment in clear for word in segment.words)
        yield from cues_of(on_the_clock(words, runs, begin))


@dataclass(frozen=True)
class SpokenWord:
    """A word with its times in the sound."""

    text: str  # with the space before it, in languages that have spaces
    start: float  # seconds
    end: float
    probability: float
    run: int  # the run of speech that it belongs to


def on_the_clock(words: Iterable[Any], runs: Sequence[Run], begin: int) -> Iterator[SpokenWord]:
    """Words of the joined runs with their times in the sound, each inside the run that its middle belongs to."""
    ends = list(accumulate((last - first) / RATE for first, last in runs))  # of each run, in the joined sound
    for word in words:
        run = min(bisect_left(ends, (word.start + word.end) / 2), len(runs) - 1)
        first, last = ((begin + sample) / RATE for sample in runs[run])
        shift = last - ends[run]
        start, end = (min(max(float(seconds) + shift, first), last) for seconds in (word.start, word.end))
        yield SpokenWord(word.word, start, end, float(word.probability), run)


def cues_of(words: Iterable[SpokenWord]) -> Iterator[Cue]:
    """A cue for each sentence; one that pauses or does not fit into two lines of a subtitle is several."""
    held: list[SpokenWord] = []
    for word in words:
        if held and (word.run != held[-1].run or len(_text([*held, word])) > MAX_LETTERS):
            yield _cue(held)
            held = []
        held.append(word)
        if len(held) >= MIN_WORDS and word.text.rstrip().endswith(SENTENCE_ENDS):
            yield _cue(held)
            held = []
    if held:
        yield _cue(held)


def _cue(words: Sequence[SpokenWord]) -> Cue:
    confidence = sum(word.probability for word in words) / len(words)
    return Cue(words[0].start, max(words[-1].end, words[0].start + 0.01), _text(words), min(1.0, confidence))


def _text(words: Sequence[SpokenWord]) -> str:
    return " ".join("".join(word.text for word in words).split())


def speech_blocks(path: Path, start: float, warnings: list[str]) -> Iterator[tuple[int, Samples, list[Run]]]:
    """(first sample, samples, runs of speech in them) of a sound from `start` on; a block ends between two runs."""
    begin, held = 0, np.empty(0, np.float32)
    first = round(start * RATE)
    for samples in ahead(iterate_audio(path, RATE, report=warnings.append)):
        held = np.concatenate([held, samples])
        if begin < first:
            passed = min(first - begin, len(held))
            begin, held = begin + passed, held[passed:]
        if len(held) >= BLOCK_SECONDS * RATE:
            runs = speech_runs(held)
            end = len(held)
            if runs and runs[-1][1] > end - MIN_PAUSE * RATE:  # it may go on in the next block
                end = runs.pop()[0]
            yield begin, held[:end], runs
            begin, held = begin + end, held[end:]
    if len(held):
        yield begin, held, speech_runs(held)


def speech_runs(samples: Samples) -> list[Run]:
    from faster_whisper.vad import VadOptions, get_speech_timestamps

    options = VadOptions(
        min_silence_duration_ms=round(1000 * MIN_PAUSE),
        max_speech_duration_s=MAX_RUN,
        speech_pad_ms=round(1000 * PAD),
    )
    found: list[dict[str, Any]] = get_speech_timestamps(samples, options)
    return [(int(run["start"]), int(run["end"])) for run in found]
