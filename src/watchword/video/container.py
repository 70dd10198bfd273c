"""Opening an untrusted file: one video, from one ordinary file, and nothing else.

FFmpeg also reads playlists and lists that make it open *other* files or addresses. A video from an unknown source
must not read /etc/passwd or call a host, so only the `file` protocol is allowed and formats that point elsewhere are
not. Devices and pipes may never end: only regular files are opened. Dimensions are limited before memory is taken.
"""

import os
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

import av
import av.logging
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from watchword.errors import VideoMissing, VideoUnreadable, WatchwordError

av.logging.set_level(None)  # FFmpeg writes its complaints to stderr otherwise; ours are errors and reports

ADDRESSES = ("http:", "https:", "rtsp:", "rtmp:")  # as the first part of a path
PLAYLISTS = (".m3u", ".m3u8", ".pls", ".mpd", ".xspf")
SAVE_FIRST = "Watchword reads files and fetches nothing: save it first (yt-dlp downloads web videos, ffmpeg streams)"
MAX_PIXELS = 100_000_000  # 12 k x 8 k: more than any camera's video, less than a machine's memory
MAX_SECONDS = 1_000_000.0  # eleven days: a time stamp beyond it is wrong, and sampling it would never end

# Demuxers that open other files, addresses or devices, run scripts, or take any text for a picture.
REFUSED = {
    "concat", "dash", "hds", "hls", "imf", "mlv", "smoothstreaming", "vobsub", "webm_dash_manifest",
    "rtp", "rtsp", "sap", "sdp", "whip",
    "alsa", "fbdev", "kmsgrab", "oss", "video4linux2,v4l2", "x11grab",
    "avisynth", "lavfi", "vapoursynth", "svg_pipe", "tty",
}  # fmt: skip
OPTIONS = {
    "protocol_whitelist": "file",
    "format_whitelist": ",".join(sorted(av.formats_available - REFUSED)),
    "max_pixels": str(MAX_PIXELS),
    "pattern_type": "none",  # `holiday%03d.jpg` is one photograph
}

Report = Callable[[str], None]  # gets one line for each thing that is wrong with a video that can still be used


class DamagedVideo(UserWarning):
    """A video is broken or cut short; what is good of it was used."""


def warn(line: str) -> None:
    """The report when a caller gives none. To collect the lines of one video in a thread: `report=lines.append`."""
    warnings.warn(line, DamagedVideo, stacklevel=2)


def is_address(path: Path) -> bool:
    """Whether it is an address of the web or of a camera, given as if it were a file."""
    first = path.parts[0].lower() if path.parts else ""
    return first in ADDRESSES or (first.startswith("www.") and not os.path.exists(path.parts[0]))


def shown(path: Path) -> str:
    """A name that any terminal can print on one line, whatever bytes it is made of."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    if is_address(path):  # a path has one slash
        text = text.replace(":/", "://", 1)
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


@contextmanager
def opened(path: Path) -> Iterator[InputContainer]:
    """The video, open; whatever goes wrong between here and its closing becomes one line."""
    _check_file(path)
    try:
        # An absolute name after `file:` is never taken for an address, an option or a pattern.
        container = av.open("file:" + os.path.abspath(path), options=OPTIONS, metadata_errors="replace")
    except Exception as error:
        raise _unreadable(path, error) from error
    try:
        yield container
    except WatchwordError:
        raise
    except Exception as error:  # of FFmpeg, or of PyAV: a damaged file can cause any
        raise _unreadable(path, error) from error
    finally:
        container.close()


def demux(container: InputContainer, stream: Stream | None, damage: list[str]) -> "Iterator[Packet[Any]]":
    """Packets of a stream, or of all, up to where the file breaks off; the reason is appended to `damage`."""
    try:
        for packet in container.demux(stream) if stream is not None else container.demux():
            if packet.size or packet.dts is not None:  # others are the empty packets that end each stream
                yield packet
    except Exception as error:  # PyAV adds its own to FFmpeg's: an IndexError for a stream that begins midway
        damage.append(reason_of(error))


def reason_of(error: Exception) -> str:
    """FFmpeg's reason on one line; the kind of any other error."""
    if isinstance(error, av.FFmpegError):
        return error.strerror or str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def video_stream(path: Path, container: InputContainer) -> VideoStream:
    """The video's main picture stream, ready to decode; cover art of a song is not a video."""
    best = container.streams.best("video")
    videos = [stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic]
    if not videos:
        kinds = [stream.type for stream in container.streams if stream.type != "video"]
        counts = [f"{kinds.count(kind)} {kind} stream{'s' * (kinds.count(kind) > 1)}" for kind in sorted(set(kinds))]
        covers = len(container.streams.video)
        counts += [f"{covers} cover picture{'s' * (covers > 1)}"] if covers else []
        raise VideoUnreadable(f"cannot read {shown(path)}: no video stream ({', '.join(counts) or 'no stream'} found)")
    stream = next((video for video in videos if video is best), videos[0])
    context = stream.codec_context
    if context is None:
        raise VideoUnreadable(f"cannot read {shown(path)}: no decoder here reads its pictures; convert it to h264")
    if context.width * context.height > MAX_PIXELS:
        raise VideoUnreadable(
            f"cannot read {shown(path)}: {context.width}x{context.height} pixels a frame, "
            f"at most {MAX_PIXELS // 1_000_000} million are read; scale it down first"
        )
    context.options = {"max_pixels": str(MAX_PIXELS)}  # the stream's own header may say more than the container's
    return stream


def _check_file(path: Path) -> None:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise VideoMissing(f"cannot read {shown(path)}: no such file{_neighbour(path)}") from None
    except (OSError, ValueError) as error:
        raise VideoUnreadable(f"cannot read {shown(path)}: {getattr(error, 'strerror', None) or error}") from error
    if not os.access(path, os.R_OK):
        raise VideoUnreadable(f"cannot read {shown(path)}: permission denied")
    if stat.S_ISDIR(status.st_mode):
        raise VideoUnreadable(f"cannot read {shown(path)}: it is a folder; name the videos in it")
    if not stat.S_ISREG(status.st_mode):
        raise VideoUnreadable(
            f"cannot read {shown(path)}: not a regular file; copy a pipe to a file, record a camera with ffmpeg first"
        )
    if status.st_size == 0:
        raise VideoUnreadable(f"cannot read {shown(path)}: the file is empty (0 bytes); was its download cut short?")


def _neighbour(path: Path) -> str:
    """What was probably meant by a file that is not there."""
    if is_address(path):
        return f"; {SAVE_FIRST}"
    if path.suffix.lower() in PLAYLISTS:
        return f"; a playlist is no video, {SAVE_FIRST}"
    if path.is_relative_to("/dev"):
        return "; Watchword reads no camera: record it to a file first, with ffmpeg for example"
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, 10_000) if entry.name != path.name]
    except OSError:
        return f" (nor is there a folder {shown(path.parent)})"
    close = get_close_matches(path.name, names, n=1)
    return f"; did you mean {shown(path.parent / close[0])}?" if close else ""


def _unreadable(path: Path, error: Exception) -> VideoUnreadable:
    reason = reason_of(error)
    if path.suffix.lower() in PLAYLISTS:
        reason = "a playlist is no video; give the files that it names (yt-dlp and ffmpeg save those of the web)"
    elif isinstance(error, av.error.ArgumentError | ValueError) and "Invalid argument" in reason:
        reason = "not a video, or a playlist of other files, which is refused; give the video itself"
    elif isinstance(error, av.error.InvalidDataError):
        reason = "FFmpeg finds no video in it (damaged, cut short, or another kind of file)"
    return VideoUnreadable(f"cannot read {shown(path)}: {reason}")
