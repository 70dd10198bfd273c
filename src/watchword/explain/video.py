"""Evidence as a film: it plays with what was looked at, words light up at their moments; then word by word.

The pictures come from the same reader as all others, so that odd films (turned, of changing rate) are upright here too.
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
from watchword.explain.attention import Evidence, ShotEvidence
from watchword.explain.frames import Pictures
from watchword.explain.overlay import Picture, paint
from watchword.explain.peaks import Glance, glance, is_even, main_head, strength
from watchword.video import Rate, ShortSide, iterate_frames, probe
from watchword.video.container import opened

PIXELS = 360                     # of a picture's shorter side
MOST_FRAMES_A_SECOND = 25.0
WORD_SECONDS = 1.2               # that each word is held for, after a film that was described whole
ENCODERS = {"libx264": {"crf": "23", "preset": "veryfast"}, "mpeg4": {"qscale": "4"}}  # the first that is there
SOUNDS = {"aac", "mp3", "opus"}          # that can be taken over as they are
GROUND, BRIGHT, DULL, LIT, BLUE = (23, 23, 26), (236, 236, 239), (128, 128, 138), (255, 157, 92), (112, 182, 240)
MARGIN, LINE, ROW = 16, 34, 8    # pixels


@dataclass(frozen=True)
class Scene:
    """A shot as it is drawn."""

    shot: ShotEvidence
    name: str | None             # of the head that is drawn

    def moment(self, seconds: float) -> int:
        return int(np.abs(self.shot.heads[self.name].times - seconds).argmin()) if self.name else 0

    def together(self, moment: int) -> Glance | None:
        """What all words looked at in a moment, each by how much of it comes from there."""
        if self.name is None:
            return None
        head = self.shot.heads[self.name]
        places = head.weights[:, moment].mean(0)
        total = float(places.sum())
        alike = not total or len(places) == 1 or (is_even(places) and int((places > 0).sum()) != 1)
        return Glance(moment, float(head.times[moment]), 0.0, places / max(total, 1e-12), head.boxes_at(moment), False,
                      alike)  # fmt: skip

    def lit(self, moment: int) -> list[float]:
        """How much each word lights up."""
        if self.name is None:
            return [0.0] * len(self.shot.words)
        return strength(self.shot.heads[self.name].over_time)[:, moment].tolist()


def write_film(evidence: Evidence, film: Path, target: Path, head: str | None = None) -> None:
    """An mp4 file, H.264 where this PyAV can write it."""
    info = probe(film)
    rate = Fraction(min(max(info.fps, 1.0), MOST_FRAMES_A_SECOND)).limit_denominator(1000)
    scenes = [Scene(shot, head if head in shot.heads else main_head(shot)) for shot in evidence.shots]
    frames = _frames(evidence, film, scenes, rate)
    first = next(frames)
    try:
        options = {"movflags": "+faststart"}
        with opened(film) as source, av.open(str(target), "w", format="mp4", options=options) as container:
            stream = _video(container, rate, first.width, first.height)
            sound = Sound(source, container)
            for number, image in enumerate(chain([first], frames)):
                frame = av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")
                frame.pts, frame.time_base = number, 1 / rate
                container.mux(stream.encode(frame))
                sound.reach(float(number / rate))
            container.mux(stream.encode(None))
    except (av.FFmpegError, OSError) as error:
        raise WatchwordError(f"cannot write {target}: {error}") from error


def _video(container: Any, rate: Fraction, width: int, height: int) -> Any:
    for name, options in ENCODERS.items():
        if name in av.codecs_available:
            stream = container.add_stream(name, rate=rate, options=options)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            stream.codec_context.time_base = 1 / rate
            return stream
    raise WatchwordError(f"this PyAV can write none of {', '.join(ENCODERS)}: explain as html instead")


def _frames(evidence: Evidence, film: Path, scenes: list[Scene], rate: Fraction) -> Iterator[Image.Image]:
    board = Board(scenes)
    for frames in iterate_frames(film, Rate(float(rate)), ShortSide(PIXELS), report=lambda line: None):
        for number, picture in enumerate(frames.pictures):
            seconds = float(frames.times[number])
            scene = next((one for one in scenes if one.shot.start <= seconds < one.shot.end), None)
            yield board.draw(picture, scene, seconds)
    if len(scenes) == 1 and scenes[0].name:
        yield from _word_by_word(film, scenes[0], board, round(WORD_SECONDS * rate))


def _word_by_word(film: Path, scene: Scene, board: "Board", frames: int) -> Iterator[Image.Image]:
    assert scene.name is not None
    glances = [glance(scene.shot, scene.name, word) for word in range(len(scene.shot.words))]
    pictures = Pictures.read(film, [one.seconds for one in glances], PIXELS)
    for word, seen in enumerate(glances):
        image = board.hold(pictures.at(seen.seconds), scene, word, seen)
        for _ in range(frames):
            yield image


class Board:
    """The picture, and below it the sentence and the timeline of attention."""

    def __init__(self, scenes: list[Scene]) -> None:
        self.scenes = scenes
        self.font, self.small = ImageFont.load_default(22), ImageFont.load_default(13)

    def draw(self, picture: Picture, scene: Scene | None, seconds: float) -> Image.Image:
        if scene is None:
            return self._board(picture, None, [], seconds)
        moment = scene.moment(seconds)
        seen = scene.together(moment)
        painted = picture
        if seen is not None and scene.name is not None:
            painted = paint(picture, scene.shot.heads[scene.name], seen)
        return self._board(painted, scene, scene.lit(moment), seconds)

    def hold(self, picture: Picture, scene: Scene, word: int, seen: Glance) -> Image.Image:
        """One word alone."""
        assert scene.name is not None
        alone = [float(number == word) for number in range(len(scene.shot.words))]
        painted = paint(picture, scene.shot.heads[scene.name], seen)
        return self._board(painted, scene, alone, seen.seconds)

    def _board(self, picture: Picture, scene: Scene | None, lit: list[float], seconds: float) -> Image.Image:
        height, width = picture.shape[:2]
        lines, rows = self.layout(width)
        tall = height + 2 * MARGIN + lines * LINE + rows * ROW + 22
        image = Image.new("RGB", (width + width % 2, tall + tall % 2), GROUND)
        image.paste(Image.fromarray(np.ascontiguousarray(picture)), (0, 0))
        if scene is None:
            return image
        pen = ImageDraw.Draw(image)
        for (left, top), word, glow in zip(self.places(scene, width), scene.shot.words, lit, strict=True):
            colour = tuple(round(dull * (1 - glow) + lit_ * glow) for dull, lit_ in zip(BRIGHT, LIT, strict=True))
            at = (left, height + MARGIN + top)
            pen.text(at, word.word, font=self.font, fill=colour)
            if glow > 0.5:
                pen.line((left, at[1] + 28, left + self.font.getlength(word.word), at[1] + 28), fill=LIT, width=2)
        top = height + MARGIN + lines * LINE
        image.paste(self._timeline(self.scenes.index(scene), width - 2 * MARGIN), (MARGIN, top))
        shot = scene.shot
        at = MARGIN + (seconds - shot.start) / max(shot.end - shot.start, 1e-9) * (width - 2 * MARGIN)
        pen.line((at, top - 3, at, top + len(shot.words) * ROW + 2), fill=LIT, width=2)
        note = f"{seconds:.1f} s" + (f", {scene.name}" if scene.name else "")
        pen.text((MARGIN, top + rows * ROW + 4), note, font=self.small, fill=DULL)
        return image

    def layout(self, width: int) -> tuple[int, int]:
        """Lines of words and rows of timelines that all shots fit into: a film does not change its size."""
        lines = max((round(self.places(scene, width)[-1][1] / LINE) + 1 for scene in self.scenes), default=1)
        return lines, max((len(scene.shot.words) for scene in self.scenes), default=0)

    def places(self, scene: Scene, width: int) -> list[tuple[float, float]]:
        """Where each word stands."""
        found: list[tuple[float, float]] = []
        left, top = float(MARGIN), 0.0
        for word in scene.shot.words:
            long = self.font.getlength(word.word)
            if left + long > width - MARGIN and left > MARGIN:
                left, top = float(MARGIN), top + LINE
            found.append((left, top))
            left += long + 9
        return found

    @lru_cache(maxsize=8)  # noqa: B019 (a board lives as long as its film is written)
    def _timeline(self, number: int, width: int) -> Image.Image:
        """Words by moments, the brighter the more of the word's attention."""
        scene = self.scenes[number]
        image = Image.new("RGB", (width, max(len(scene.shot.words) * ROW, 1)), GROUND)
        if scene.name is None:
            return image
        head, shot = scene.shot.heads[scene.name], scene.shot
        values = strength(head.over_time)  # (T, F)
        column = [scene.moment(shot.start + (shot.end - shot.start) * (x + 0.5) / width) for x in range(width)]
        shade = np.repeat(values[:, column], ROW - 2, 0).reshape(len(values), ROW - 2, width)
        shade = np.pad(shade, ((0, 0), (0, 2), (0, 0))).reshape(-1, width, 1)
        pixels = np.array(GROUND) * (1 - shade) + np.array(BLUE) * shade
        return Image.fromarray(pixels.round().astype(np.uint8))


class Sound:
    """The film's own sound, taken over packet by packet as the pictures go on; silence where it cannot be."""

    def __init__(self, source: Any, container: Any) -> None:
        sounds = [one for one in source.streams.audio if one.codec_context and _codec(one) in SOUNDS]
        self.container = container
        self.packets: Iterator[Any] = iter(())
        if sounds:
            self.stream = container.add_stream_from_template(sounds[0])
            self.packets = source.demux(sounds[0])
        self.begin = (source.start_time or 0) / 1e6  # the film's zero, as `media` counts

    def reach(self, seconds: float) -> None:
        """As far as the pictures are."""
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
