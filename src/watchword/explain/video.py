"""An explanation as a video: it plays with the attention of all words, then stops at each word's peak.

Frames come from the same reader as features, so rotated videos and variable frame rates are handled.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from watchword.errors import WatchwordError
from watchword.explain.attention import Explanation, Peak, SegmentExplanation, is_uniform, main_head, peak, strength
from watchword.explain.overlay import FrameSet, Picture, paint
from watchword.video import Rate, ShortSide, iterate_frames, probe
from watchword.video.container import opened

PIXELS = 360  # of a picture's shorter side
MOST_FRAMES_A_SECOND = 25.0
WORD_SECONDS = 1.2  # for each word, after a video that was captioned as a whole
ENCODERS = {"libx264": {"crf": "23", "preset": "veryfast"}, "mpeg4": {"qscale": "4"}}  # the first that is available
SOUNDS = {"aac", "mp3", "opus"}  # codecs that are copied
GROUND, BRIGHT, DULL, LIT, BLUE = (23, 23, 26), (236, 236, 239), (128, 128, 138), (255, 157, 92), (112, 182, 240)
MARGIN, LINE, ROW = 16, 34, 8  # pixels


@dataclass(frozen=True)
class Scene:
    """A segment and the head that is drawn."""

    segment: SegmentExplanation
    name: str | None  # of the head that is drawn

    def step(self, seconds: float) -> int:
        return int(np.abs(self.segment.heads[self.name].times - seconds).argmin()) if self.name else 0

    def together(self, step: int) -> Peak | None:
        """The mean attention of all words at a time step."""
        if self.name is None:
            return None
        head = self.segment.heads[self.name]
        locations = head.weights[:, step].mean(0)
        total = float(locations.sum())
        uniform = not total or len(locations) == 1 or (is_uniform(locations) and int((locations > 0).sum()) != 1)
        return Peak(
            step, float(head.times[step]), 0.0, locations / max(total, 1e-12), head.boxes_at(step), False, uniform
        )

    def strengths(self, step: int) -> list[float]:
        """Of each word the strength at a time step, 0..1."""
        if self.name is None:
            return [0.0] * len(self.segment.words)
        return strength(self.segment.heads[self.name].over_time)[:, step].tolist()


def write_video(explanation: Explanation, video: Path, target: Path, head: str | None = None) -> None:
    """An mp4 file, H.264 where this PyAV can write it. What cannot be written is an OSError."""
    info = probe(video)
    rate = Fraction(min(max(info.fps, 1.0), MOST_FRAMES_A_SECOND)).limit_denominator(1000)
    scenes = [Scene(segment, head if head in segment.heads else main_head(segment)) for segment in explanation.segments]
    frames = _frames(video, scenes, rate, info.duration_seconds)
    first = next(frames)
    options = {"movflags": "+faststart"}
    with opened(video) as source:
        try:
            with av.open(str(target), "w", format="mp4", options=options) as container:
                stream = _video(container, rate, *first[1].size)
                sound = Sound(source, container)
                for number, image in chain([first], frames):
                    frame = av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")
                    frame.pts, frame.time_base = number, 1 / rate
                    container.mux(stream.encode(frame))
                    sound.reach(float(number / rate))
                container.mux(stream.encode(None))
        except av.FFmpegError as error:
            raise OSError(error.errno, error.strerror) from error


def _video(container: Any, rate: Fraction, width: int, height: int) -> Any:
    for name, options in ENCODERS.items():
        if name in av.codecs_available:
            stream = container.add_stream(name, rate=rate, options=options)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            stream.codec_context.time_base = 1 / rate
            return stream
    raise WatchwordError(f"this PyAV can write none of {', '.join(ENCODERS)}: explain as html instead")


def _frames(video: Path, scenes: list[Scene], rate: Fraction, duration: float) -> Iterator[tuple[int, Image.Image]]:
    """(when it is shown, in frames of this rate; the image): a frame that is shown for long comes once."""
    board, begin, number = Board(scenes), None, -1
    for frames in iterate_frames(video, Rate(float(rate)), ShortSide(PIXELS), report=lambda line: None):
        for seconds, picture in zip(frames.times.tolist(), frames.pictures, strict=True):
            begin = seconds if begin is None else begin
            number = max(number + 1, round((seconds - begin) * rate))
            scene = next((one for one in scenes if one.segment.start <= seconds < one.segment.end), None)
            yield number, board.draw(picture, scene, seconds)
    if len(scenes) == 1 and scenes[0].name:
        number = max(number + 1, round(duration * rate))
        yield from enumerate(_word_by_word(video, scenes[0], board, round(WORD_SECONDS * rate)), number)


def _word_by_word(video: Path, scene: Scene, board: "Board", frames: int) -> Iterator[Image.Image]:
    assert scene.name is not None
    peaks = [peak(scene.segment, scene.name, word) for word in range(len(scene.segment.words))]
    pictures = FrameSet.read(video, [one.seconds for one in peaks], PIXELS)
    for word, found in enumerate(peaks):
        image = board.hold(pictures.at(found.seconds), scene, word, found)
        for _ in range(frames):
            yield image


class Board:
    """A frame, and below it the caption and the timeline of attention."""

    def __init__(self, scenes: list[Scene]) -> None:
        self.scenes = scenes
        self.font, self.small = ImageFont.load_default(22), ImageFont.load_default(13)

    def draw(self, picture: Picture, scene: Scene | None, seconds: float) -> Image.Image:
        if scene is None:
            return self._board(picture, None, [], seconds)
        step = scene.step(seconds)
        found = scene.together(step)
        painted = picture
        if found is not None and scene.name is not None:
            painted = paint(picture, scene.segment.heads[scene.name], found)
        return self._board(painted, scene, scene.strengths(step), seconds)

    def hold(self, picture: Picture, scene: Scene, word: int, found: Peak) -> Image.Image:
        """One word alone."""
        assert scene.name is not None
        alone = [float(number == word) for number in range(len(scene.segment.words))]
        painted = paint(picture, scene.segment.heads[scene.name], found)
        return self._board(painted, scene, alone, found.seconds)

    def _board(self, picture: Picture, scene: Scene | None, lit: list[float], seconds: float) -> Image.Image:
        height, width = picture.shape[:2]
        lines, rows = self.layout(width)
        tall = height + 2 * MARGIN + lines * LINE + rows * ROW + 22
        image = Image.new("RGB", (width + width % 2, tall + tall % 2), GROUND)
        image.paste(Image.fromarray(np.ascontiguousarray(picture)), (0, 0))
        if scene is None:
            return image
        pen = ImageDraw.Draw(image)
        for (left, top), word, glow in zip(self.locations(scene, width), scene.segment.words, lit, strict=True):
            colour = tuple(round(dull * (1 - glow) + lit_ * glow) for dull, lit_ in zip(BRIGHT, LIT, strict=True))
            at = (left, height + MARGIN + top)
            pen.text(at, word.word, font=self.font, fill=colour)
            if glow > 0.5:
                pen.line((left, at[1] + 28, left + self.font.getlength(word.word), at[1] + 28), fill=LIT, width=2)
        top = height + MARGIN + lines * LINE
        image.paste(self._timeline(self.scenes.index(scene), width - 2 * MARGIN), (MARGIN, top))
        segment = scene.segment
        at = MARGIN + (seconds - segment.start) / max(segment.end - segment.start, 1e-9) * (width - 2 * MARGIN)
        pen.line((at, top - 3, at, top + len(segment.words) * ROW + 2), fill=LIT, width=2)
        note = f"{seconds:.1f} s" + (f", {scene.name}" if scene.name else "")
        pen.text((MARGIN, top + rows * ROW + 4), note, font=self.small, fill=DULL)
        return image

    def layout(self, width: int) -> tuple[int, int]:
        """Lines of words and rows of timelines that fit all segments: the size of a video is fixed."""
        lines = max((round(self.locations(scene, width)[-1][1] / LINE) + 1 for scene in self.scenes), default=1)
        return lines, max((len(scene.segment.words) for scene in self.scenes), default=0)

    def locations(self, scene: Scene, width: int) -> list[tuple[float, float]]:
        """The position of each word."""
        found: list[tuple[float, float]] = []
        left, top = float(MARGIN), 0.0
        for word in scene.segment.words:
            long = self.font.getlength(word.word)
            if left + long > width - MARGIN and left > MARGIN:
                left, top = float(MARGIN), top + LINE
            found.append((left, top))
            left += long + 9
        return found

    @lru_cache(maxsize=8)  # noqa: B019 (a board lives while its video is written)
    def _timeline(self, number: int, width: int) -> Image.Image:
        """Words by time, the brighter, the larger the weight."""
        scene = self.scenes[number]
        image = Image.new("RGB", (width, max(len(scene.segment.words) * ROW, 1)), GROUND)
        if scene.name is None:
            return image
        head, segment = scene.segment.heads[scene.name], scene.segment
        values = strength(head.over_time)  # (T, F)
        column = [scene.step(segment.start + (segment.end - segment.start) * (x + 0.5) / width) for x in range(width)]
        shade = np.repeat(values[:, column], ROW - 2, 0).reshape(len(values), ROW - 2, width)
        shade = np.pad(shade, ((0, 0), (0, 2), (0, 0))).reshape(-1, width, 1)
        pixels = np.array(GROUND) * (1 - shade) + np.array(BLUE) * shade
        return Image.fromarray(pixels.round().astype(np.uint8))


class Sound:
    """Copies the video's audio packet by packet beside the frames; no audio where the codec cannot be copied."""

    def __init__(self, source: Any, container: Any) -> None:
        sounds = [one for one in source.streams.audio if one.codec_context and _codec(one) in SOUNDS]
        self.container = container
        self.packets: Iterator[Any] = iter(())
        if sounds:
            self.stream = container.add_stream_from_template(sounds[0])
            self.packets = source.demux(sounds[0])
        self.begin = (source.start_time or 0) / 1e6  # the video's zero, as `media` counts

    def reach(self, seconds: float) -> None:
        """Copies packets up to this time."""
        for packet in self.packets:
            if packet.dts is not None and packet.pts is not None:
                reached = float(packet.pts * packet.time_base) - self.begin
                packet.stream = self.stream
                self.container.mux(packet)
                if reached >= seconds:
                    return


def _codec(stream: Any) -> str:
    name: str = stream.codec_context.codec.canonical_name
    return name
