"""Videos that tests draw themselves, to know what is on screen: a frame carries its number as eight dark/light bars."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]


def numbered(number: int, width: int = 128, height: int = 96) -> Picture:
    """A picture that says its number from 0 to 255, readable after any codec and scaling."""
    bits = [(number >> bit) & 1 for bit in range(8)]
    row = np.repeat(np.array(bits, np.uint8) * 200 + 28, width // 8)  # (W,)
    return np.broadcast_to(row[None, :, None], (height, width, 3)).copy()


def number_of(picture: Picture) -> int:
    bars = np.array_split(picture.astype(np.float64).mean((0, 2)), 8)
    return sum(int(bar[len(bar) // 4 : -len(bar) // 4 or None].mean() > 128) << bit for bit, bar in enumerate(bars))


def write_video(
    path: Path,
    pictures: Sequence[Picture],
    milliseconds: Sequence[int] | None = None,
    *,
    codec: str = "libx264",
    pixels: str = "yuv420p",
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    container_format: str | None = None,
    rotation: dict[str, Any] | None = None,
    tone: float | None = None,
    tone_start: float = 0.0,
    tone_seconds: float = 1.0,
) -> Path:
    """Pictures shown at these times (40 ms apart unless told), with a 440 Hz tone where asked."""
    times = list(milliseconds) if milliseconds is not None else [40 * index for index in range(len(pictures))]
    with av.open(str(path), "w", format=container_format, options=container_options or {}) as container:
        video = container.add_stream(codec, rate=25, options=options or {})
        video.width, video.height, video.pix_fmt = pictures[0].shape[1], pictures[0].shape[0], pixels
        video.codec_context.time_base = Fraction(1, 1000) if codec not in {"mpeg2video", "gif"} else Fraction(1, 25)
        if rotation is not None:
            video.set_display_rotation(**rotation)
        audio = container.add_stream("aac" if path.suffix != ".webm" else "libopus", rate=48_000) if tone else None
        for picture, time in zip(pictures, times, strict=True):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=pixels)
            frame.time_base = video.codec_context.time_base
            frame.pts = round(time / 1000 / frame.time_base)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        if audio is not None:
            write_tone(container, audio, tone or 0.0, tone_start, tone_seconds)
    return path


def write_tone(container: Any, stream: Any, hertz: float, start: float, seconds: float) -> None:
    samples = np.sin(2 * np.pi * hertz * np.arange(round(48_000 * seconds)) / 48_000).astype(np.float32) / 2
    for begin in range(0, len(samples), 960):
        piece = samples[begin : begin + 960]
        frame = av.AudioFrame.from_ndarray(np.stack([piece, piece]), format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = 48_000, round(start * 48_000) + begin, Fraction(1, 48_000)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))
