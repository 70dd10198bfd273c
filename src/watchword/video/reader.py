"""Frames of a video at given times: the frame for time t is the one that is on screen at t.

It is cheap, because the timeline has the packets of the frames that are asked for. Packets between them are dropped
undecoded up to the next key frame, and many in a row are not even read. Frames that no other refers to are skipped
inside the decoder. Only frames that are asked for are converted to RGB, at the size asked for.

It is safe, because after a jump every packet must be the one that the timeline has; otherwise the video is read without
jumps. If an expected frame does not come out (odd or damaged video), the rest is read again, every packet decoded.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from numpy.typing import NDArray

from watchword.errors import VideoUnreadable, WatchwordError
from watchword.types import Frames
from watchword.video.container import Report, demux, opened, reason_of, shown, video_stream, warn
from watchword.video.sampling import Plan
from watchword.video.timeline import Scan, scan
from watchword.video.transforms import NATIVE, Converter, Size, display_matrix, upright_size

FAR = 250  # packets: a longer segment that is not needed is jumped over; a shorter one is as quickly read
# Decoders that skip exactly the frames that nothing refers to, so that all others come out unchanged.
CAN_SKIP = {"h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4"}


@dataclass(frozen=True)
class VideoInfo:
    """What a video is, as a player shows it."""

    duration_seconds: float  # of the pictures; 0.04 for a photograph
    width: int  # square pixels, upright
    height: int
    fps: float  # on average
    rotation: int  # degrees clockwise that the file asks for; already applied to width, height and frames
    has_audio: bool
    num_frames: int
    codec: str
    warnings: tuple[str, ...] = ()  # damage that was found


@dataclass(frozen=True)
class View:
    """One request: which times, at which size."""

    plan: Plan
    size: Size = NATIVE


def probe(path: str | Path) -> VideoInfo:
    """What a player shows of a video. It walks over the packets and decodes a frame: headers may be wrong."""
    path, lines = Path(path), list[str]()
    video = scan(path, lines.append)
    _, frame = next(_on_screen(path, video, np.array([video.origin]), 1, []))
    width, height = upright_size(frame, video.aspect)
    num_frames, seconds = len(video.timeline.times), video.timeline.end - float(video.timeline.times[0])
    matrix = display_matrix(frame)
    degrees = round(float(np.degrees(np.arctan2(matrix[1, 0], matrix[0, 0])))) % 360
    fps = num_frames / seconds
    return VideoInfo(seconds, width, height, fps, degrees, video.has_audio, num_frames, video.codec, tuple(lines))


def read_frames(
    path: str | Path, plan: Plan, size: Size = NATIVE, *, threads: int = 1, report: Report = warn
) -> Frames:
    """All frames of a plan at once: for plans that ask for few."""
    (frames,) = iterate_frames(path, plan, size, chunk=sys.maxsize, threads=threads, report=report)
    return frames


def iterate_frames(
    path: str | Path, plan: Plan, size: Size = NATIVE, *, chunk: int = 64, threads: int = 1, report: Report = warn
) -> Iterator[Frames]:
    """The frames of a plan, `chunk` at a time: a video of any length in the memory of one chunk."""
    for _, frames in iterate_views(path, {"frames": View(plan, size)}, chunk=chunk, threads=threads, report=report):
        yield frames


def iterate_views(
    path: str | Path, views: Mapping[str, View], *, chunk: int = 64, threads: int = 1, report: Report = warn
) -> Iterator[tuple[str, Frames]]:
    """Several views in one decoding: (name, up to `chunk` frames) as they fill up, each view in order of time.

    `Frames.times` are the presentation times of the frames shown, in seconds from the video's start. A damaged video
    gives its good frames; `report` gets one line for each kind of damage.
    """
    path = Path(path)
    video = scan(path, report)
    viewers = [_Viewer(name, view, video, chunk) for name, view in views.items()]
    asked_ticks = np.unique(np.concatenate([viewer.asked for viewer in viewers]))  # of all views together
    damage: list[str] = []
    for asked, (tick, frame) in zip(asked_ticks, _on_screen(path, video, asked_ticks, threads, damage), strict=False):
        for viewer in viewers:
            try:
                yield from viewer.add(asked, tick, frame)
            except WatchwordError as error:
                raise VideoUnreadable(f"cannot read {shown(path)}: {error}") from error
            except Exception as error:
                raise VideoUnreadable(f"cannot read {shown(path)}: {reason_of(error)}") from error
    if damage:
        report(f"{shown(path)} is damaged: {len(damage)} of {len(video.ticks)} frames cannot be decoded ({damage[0]})")


class _Viewer:
    """Collects the pictures of one view."""

    def __init__(self, name: str, view: View, video: Scan, chunk: int) -> None:
        self.name, self.video, self.chunk = name, video, chunk
        seconds = view.plan.times(video.timeline)
        # A microsecond of tolerance: 0.1 + 0.2 must still find the frame at 0.3.
        self.asked = np.floor((seconds + 1e-6) / float(video.tick)).astype(np.int64) + video.origin  # (K,) ascending
        self.converter = Converter(view.size, video.aspect)
        self.done = 0
        self.times: list[float] = []
        self.pictures: NDArray[np.uint8] | None = None

    def add(self, asked: int, tick: int, frame: VideoFrame) -> Iterator[tuple[str, Frames]]:
        """Takes the frame as often as its tick is asked for; yields a chunk whenever one is full."""
        picture: NDArray[np.uint8] | None = None
        while self.done < len(self.asked) and self.asked[self.done] == asked:
            if picture is None:
                picture = self.converter.picture(frame)  # (H, W, 3)
            if self.pictures is None:
                room = min(self.chunk, len(self.asked) - self.done)
                self.pictures = np.empty((room, *picture.shape), np.uint8)
            self.pictures[len(self.times)] = picture
            self.times.append(float((tick - self.video.origin) * self.video.tick))
            self.done += 1
            if len(self.times) == len(self.pictures):
                yield self.name, Frames(self.pictures, np.array(self.times))
                self.pictures, self.times = None, []


def _on_screen(
    path: Path, video: Scan, asked_ticks: NDArray[np.int64], threads: int, damage: list[str]
) -> Iterator[tuple[int, VideoFrame]]:
    """For each asked tick, ascending, the frame that is on screen, and since when."""
    done = 0
    if video.exact:
        visible = np.unique(video.ticks[~video.hidden])
        expected = visible[np.searchsorted(visible, asked_ticks, "right").clip(1) - 1]
        for tick, frame in _decoded(path, video, expected, threads, damage):
            if tick > expected[done]:
                break  # a frame did not come out: decode every packet
            while tick == expected[done]:
                yield tick, frame
                done += 1
                if done == len(asked_ticks):
                    return
    damage.clear()
    previous: tuple[int, VideoFrame] | None = None
    for tick, frame in _decoded(path, video, None, threads, damage):
        previous = previous or (tick, frame)  # before the first frame is the first frame
        while asked_ticks[done] < tick:
            yield previous
            done += 1
            if done == len(asked_ticks):
                return
        previous = tick, frame
    if previous is None:
        raise VideoUnreadable(f"cannot read {shown(path)}: none of its frames can be decoded")
    for _ in range(done, len(asked_ticks)):  # the last good frame stays on screen
        yield previous


def _decoded(
    path: Path,
    video: Scan,
    expected: NDArray[np.int64] | None,
    threads: int,
    damage: list[str],
    jumps: bool = True,
) -> Iterator[tuple[int, VideoFrame]]:
    """Frames in the order of showing: those at the expected ticks and whatever falls out on the way; None: all."""
    wanted = np.ones(len(video.ticks), bool) if expected is None else np.isin(video.ticks, expected) & ~video.hidden
    needed = packets_to_decode(video.ticks, video.keys, wanted)
    clock = _Clock(video)
    with opened(path) as container:
        stream = video_stream(path, container)
        stream.thread_count, stream.thread_type = threads, "AUTO"
        decoder = stream.codec_context
        skips = expected is not None and decoder.name in CAN_SKIP

        def feed(packet: "Packet[VideoStream] | None") -> Iterator[tuple[int, VideoFrame]]:
            try:
                frames = decoder.decode(packet)
            except EOFError:
                return
            except Exception as error:  # any error: other packets follow
                damage.append(reason_of(error))
                return
            for frame in frames:
                tick = clock.read(frame)
                if frame.is_corrupt:
                    damage.append("frame marked as broken")
                else:
                    yield tick, frame

        skipping = jumped = False
        packets, position = _packets(container, stream), 0  # position: the number of the next packet
        for begin, end in _segments(needed):
            if begin > position and video.keys[begin]:
                yield from feed(None)
                decoder.flush_buffers()
                if jumps and video.has_index and begin - position >= FAR:
                    packets, position = _jump(container, stream, video, begin)
                    jumped = True
            for index, packet in enumerate(islice(packets, end - position), position):
                if index < begin:
                    continue
                if jumped and (packet.pts, packet.size) != (video.ticks[index], video.sizes[index]):
                    damage.clear()  # another packet than the first walk found here: start again, without jumps
                    yield from _decoded(path, video, expected, threads, damage, jumps=False)
                    return
                if skips and skipping == wanted[index]:
                    skipping = not wanted[index]
                    decoder.skip_frame = "NONREF" if skipping else "DEFAULT"
                yield from feed(packet)
            position = end
        yield from feed(None)


def _segments(needed: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where packets are needed one after the other: (first, the one after the last)."""
    edges = np.flatnonzero(np.diff(needed, prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _jump(
    container: InputContainer, stream: VideoStream, video: Scan, target: int
) -> "tuple[Iterator[Packet[VideoStream]], int]":
    """Packets from `target` on or from a little before it, and the number of the first; to be checked."""
    with suppress(FFmpegError, OSError):  # the position stays, which the check finds
        container.seek(min(int(video.decoding[target]), int(video.ticks[target])), stream=stream)
    packets = _packets(container, stream)
    first = next(packets, None)
    if first is None:
        return iter(()), target
    numbers = np.flatnonzero(video.ticks == first.pts)
    return chain([first], packets), int(numbers[0]) if len(numbers) and numbers[0] <= target else target


def packets_to_decode(
    ticks: NDArray[np.int64], keys: NDArray[np.bool_], wanted: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which packets, in the order of decoding, must be decoded to show the wanted ones: from a key frame on to each."""
    indices = np.arange(len(ticks))
    key_of = np.maximum.accumulate(np.where(keys, indices, 0))  # where each packet's group begins
    leads = ticks < ticks[key_of]  # shown before its group's key frame: it may refer to the group before
    begins = np.where(leads & (key_of > 0), key_of[key_of - 1], key_of)
    edges = np.zeros(len(ticks) + 1, np.int64)
    np.add.at(edges, begins[wanted], 1)
    np.add.at(edges, indices[wanted] + 1, -1)
    needed: NDArray[np.bool_] = edges[:-1].cumsum() > 0
    entered = (key_of == 0) | needed[key_of - 1]  # the group before is decoded too
    needed &= entered | ~leads
    return needed


class _Clock:
    """The presentation time of each frame that comes out of the decoder."""

    def __init__(self, video: Scan) -> None:
        self.video = video
        self.step = max(1, round((video.timeline.end - video.timeline.times[-1]) / float(video.tick)))
        self.shift: int | None = None
        self.last: int | None = None

    def read(self, frame: VideoFrame) -> int:
        tick = frame.pts if self.video.exact else self._in_order(frame.dts)
        if tick is None:
            tick = self.video.origin if self.last is None else self.last + self.step
        self.last = tick
        return tick

    def _in_order(self, decode_time: int | None) -> int | None:
        """A decoder's delay is the same for all frames: the first is shown at the video's start."""
        if decode_time is None:
            return None
        if self.shift is None:
            self.shift = self.video.origin - decode_time
        return max(decode_time + self.shift, self.video.origin if self.last is None else self.last)


def _packets(container: InputContainer, stream: VideoStream) -> "Iterator[Packet[VideoStream]]":
    """The packets of `scan`, up to where the file breaks off, which the scan reports."""
    return demux(container, stream, [])
