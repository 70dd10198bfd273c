"""A video's sound as mono samples at a given rate, on the clock of its pictures: sample i is heard at i / rate."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container import InputContainer
from numpy.typing import NDArray

from watchword.errors import WatchwordError
from watchword.video.container import Report, demux, opened, reason_of, shown, warn

MAX_SILENCE = 60.0  # seconds: a longer hole between time stamps is a fault of the file, and is closed
MIN_SILENCE = 0.1  # seconds: a shorter one is jitter


def read_audio(path: str | Path, rate: int = 16_000, *, report: Report = warn) -> NDArray[np.float32]:
    """The whole sound, (samples,) in -1..1. A video without sound gives an empty array: shape (0,)."""
    chunks = list(iterate_audio(path, rate, report=report))
    return np.concatenate(chunks) if chunks else np.empty(0, np.float32)


def iterate_audio(
    path: str | Path, rate: int = 16_000, *, chunk: int = 1 << 18, report: Report = warn
) -> Iterator[NDArray[np.float32]]:
    """The sound, `chunk` samples at a time (the last may be shorter); nothing at all for a video without sound."""
    if not 1 <= rate <= 384_000:
        raise WatchwordError(f"sound is read at 1 to 384000 samples a second, not {rate}")
    waiting: list[NDArray[np.float32]] = []
    for samples in _samples(Path(path), rate, report):
        waiting.append(samples)
        while sum(map(len, waiting)) >= chunk:
            joined = np.concatenate(waiting)
            yield joined[:chunk]
            waiting = [joined[chunk:]]
    if any(map(len, waiting)):
        yield np.concatenate(waiting)


def _samples(path: Path, rate: int, report: Report) -> Iterator[NDArray[np.float32]]:
    """Pieces of sound in order, with silence where the video has none, so that the clock holds."""
    damage: list[str] = []
    with opened(path) as container:
        stream = container.streams.best("audio")
        if not isinstance(stream, AudioStream):
            return
        if stream.codec_context is None:
            report(f"{shown(path)}: this FFmpeg has no decoder for its sound; read as silent")
            return
        resampler, setting = None, None
        written, clock = 0, 0.0  # samples given so far; seconds of sound heard so far
        for frame in _decoded(container, stream, damage):
            begin = clock if frame.time is None else frame.time - (container.start_time or 0) / 1e6
            hole = begin - clock
            is_hole = (MIN_SILENCE if clock else 0.0) < hole <= MAX_SILENCE
            if is_hole or setting != (frame.format.name, frame.layout.name, frame.sample_rate):  # may change midway
                for samples in _resampled(resampler, None):
                    written += len(samples)
                    yield samples
                setting = frame.format.name, frame.layout.name, frame.sample_rate
                resampler = AudioResampler(format="flt", rate=rate)  # packed: PyAV counts wrong with many planes
            if is_hole:
                silence = np.zeros(max(0, round(begin * rate) - written), np.float32)
                written += len(silence)
                yield silence
                clock = begin
            clock += frame.samples / frame.sample_rate
            frame.pts = None  # the resampler must not get holes: they are filled here
            for samples in _resampled(resampler, frame):
                written += len(samples)
                yield samples
        yield from _resampled(resampler, None)
    if damage:
        report(f"{shown(path)} is damaged: {len(damage)} packets of its sound cannot be decoded ({damage[0]})")


def _decoded(container: InputContainer, stream: AudioStream, damage: list[str]) -> Iterator[AudioFrame]:
    for packet in chain(demux(container, stream, damage), [None]):
        try:
            frames = stream.codec_context.decode(packet)
        except EOFError:
            return
        except Exception as error:  # any error: other packets follow
            damage.append(reason_of(error))
        else:
            yield from frames


def _resampled(resampler: AudioResampler | None, frame: AudioFrame | None) -> Iterator[NDArray[np.float32]]:
    """Mono is the mean of all channels, as audio networks were trained; None brings what the resampler holds back."""
    for piece in resampler.resample(frame) if resampler else []:
        if piece is not None:  # a resampler that changes nothing returns its argument
            packed = piece.to_ndarray().reshape(-1, piece.layout.nb_channels)  # (samples, channels)
            yield packed.mean(1, dtype=np.float32)
