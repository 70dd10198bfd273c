"""When each frame of a video is shown, without decoding one: a walk over the packets' headers.

Headers are often wrong about duration, rate and count, and a variable frame rate has no rate. The packets are exact: a
walk over them tells which frame is on screen at a time, which packets must be decoded for it, and where the video ends.
It takes about 5 microseconds a packet, 2 ms for a clip of 10 s.
"""

from array import array
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream
from numpy.typing import NDArray

from watchword.errors import VideoUnreadable
from watchword.types import FloatArray
from watchword.video.container import MAX_SECONDS, Report, demux, opened, shown, video_stream, warn

# These carry no presentation times. Their decoders give frames in the order of showing, so decode times will do.
WITHOUT_TIMES = {"avi", "h261", "h263", "h264", "hevc", "vvc", "m4v", "mpegvideo", "mjpeg", "cavsvideo", "dirac", "vc1"}
WITH_INDEX = {"mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "mpegts"}  # others lose their times in a seek
WITH_DURATION = {"mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi", "flv", "asf"}  # written in a header, not guessed


@dataclass(frozen=True)
class Timeline:
    """What a sampling plan reads of a video."""

    times: FloatArray  # (frames,) ascending, seconds from the video's start: each frame is shown from its time on
    end: float  # seconds: when the last frame goes


@dataclass(frozen=True)
class Scan:
    """The packets of the picture stream in the order of decoding, and the timeline they make."""

    ticks: NDArray[np.int64]  # (packets,) presentation times in units of `tick`
    decoding: NDArray[np.int64]  # (packets,) decoding times, as in a file's own index
    sizes: NDArray[np.int64]  # (packets,) bytes: with its tick, the identity of a packet
    keys: NDArray[np.bool_]  # (packets,) decoding can begin here
    hidden: NDArray[np.bool_]  # (packets,) decoded for others, never shown: outside an edit list
    tick: Fraction  # seconds
    origin: int  # ticks at the video's start
    has_index: bool  # the container says where its packets are, and what times each has
    exact: bool  # frames will carry these ticks; False: only their order and rate are known
    timeline: Timeline
    codec: str
    aspect: Fraction | None  # width of a pixel by its height
    has_audio: bool


def read_timeline(path: str | Path, report: Report = warn) -> Timeline:
    """The presentation time of every frame, without decoding one."""
    return scan(Path(path), report).timeline


def scan(path: Path, report: Report) -> Scan:
    ticks, decoding, sizes, keys, flags = array("q"), array("q"), array("q"), bytearray(), bytearray()
    duration, stopped = 0, list[str]()
    ends: dict[int, int] = {}  # the latest tick of each stream, sound and all
    with opened(path) as container:
        stream = video_stream(path, container)
        tick = stream.time_base or Fraction(1, 1000)
        step = _frame_ticks(stream, tick)
        codec, aspect = stream.codec_context.name, stream.sample_aspect_ratio
        has_audio = bool(container.streams.audio)
        exact = container.format.name not in WITHOUT_TIMES
        has_index = container.format.name in WITH_INDEX
        for packet in demux(container, None, stopped):
            time = packet.pts if exact else packet.dts
            stamp = packet.dts if packet.pts is None else packet.pts
            if stamp is not None:
                number, after = packet.stream_index, stamp + (packet.duration or 0)
                ends[number] = max(ends.get(number, after), after)
            if packet.stream is not stream:
                continue
            if time is None:
                exact, time = False, packet.dts
            ticks.append(time if time is not None else (ticks[-1] + step if ticks else 0))
            decoding.append(packet.dts if packet.dts is not None else ticks[-1])
            sizes.append(packet.size)
            keys.append(packet.is_keyframe)
            flags.append(packet.is_discard)
            duration = packet.duration or duration
        if not ticks:
            raise VideoUnreadable(f"cannot read {shown(path)}: its video stream holds no frame")
        origin = _origin(container, stream, tick, exact)
        header = (container.duration or 0) / 1e6 if container.format.name in WITH_DURATION else 0.0
        bases = {number: container.streams[number].time_base or Fraction(0) for number in ends}
        latest = max([0.0, *(float(after * bases[number]) for number, after in ends.items())])
        latest -= (container.start_time or 0) / 1e6
    found = np.frombuffer(ticks, np.int64).copy()
    hidden = np.frombuffer(flags, np.bool_).copy()
    if hidden.all():  # an edit list that hides everything is wrong
        hidden[:] = False
    visible = np.unique(found[~hidden])
    if not exact:
        origin = int(visible[0])
    times = (visible - origin) * float(tick)  # (frames,)
    if not duration:  # of the last frame: as long as frames usually are
        duration = round(float(np.median(np.diff(visible)))) if len(visible) > 1 else step
    end = float(times[-1]) + float(tick) * max(duration, 1)
    if not max(abs(float(times[0])), end) < MAX_SECONDS:
        raise VideoUnreadable(
            f"cannot read {shown(path)}: its time stamps run from {times[0]:.0f} to {end:.0f} seconds; "
            "they are damaged: remux it first"
        )
    if stopped:
        report(f"{shown(path)} is damaged: reading stops at {end:.2f} s ({stopped[0]})")
    elif header - latest > max(0.5, 0.02 * header):
        report(f"{shown(path)} is cut short: it ends at {max(latest, 0.0):.2f} s, its header says {header:.2f} s")
    key = np.frombuffer(keys, np.bool_).copy()
    order, size = (np.frombuffer(numbers, np.int64).copy() for numbers in (decoding, sizes))
    line = Timeline(times, end)
    return Scan(found, order, size, key, hidden, tick, origin, has_index, exact, line, codec, aspect, has_audio)


def _origin(container: InputContainer, stream: VideoStream, tick: Fraction, exact: bool) -> int:
    """The video's zero is where its first stream begins, as in a player: pictures and sound share it."""
    if container.start_time is None or not exact:
        return stream.start_time or 0
    return round(Fraction(container.start_time, 1_000_000) / tick)


def _frame_ticks(stream: VideoStream, tick: Fraction) -> int:
    rate = stream.average_rate or stream.guessed_rate or Fraction(25)
    return max(1, round(1 / (rate * tick)))
