"""A decoded frame -> an upright RGB array of the size asked for. Scaling happens inside the colour conversion."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from av.error import FFmpegError
from av.sidedata.sidedata import SideData
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from watchword.errors import WatchwordError
from watchword.video.container import MAX_PIXELS


@dataclass(frozen=True)
class Layout:
    """Scale to width x height, then keep the middle crop_width x crop_height."""

    width: int
    height: int
    crop_width: int
    crop_height: int


class Size(Protocol):
    """How a picture of any shape becomes the one that a network reads. Its repr is part of a store's key."""

    def layout(self, width: int, height: int) -> Layout: ...


@dataclass(frozen=True)
class Native:
    """As a player shows it: square pixels, upright."""

    def layout(self, width: int, height: int) -> Layout:
        return Layout(width, height, width, height)


NATIVE = Native()


@dataclass(frozen=True)
class Squash:
    """To width x height, whatever the aspect: nothing is lost, things look thinner or wider."""

    width: int
    height: int

    def __post_init__(self) -> None:
        _check_side(self.width, self.height)

    def layout(self, width: int, height: int) -> Layout:
        return Layout(self.width, self.height, self.width, self.height)


@dataclass(frozen=True)
class ShortSide:
    """The shorter side to `pixels`, aspect kept, nothing cut."""

    pixels: int

    def __post_init__(self) -> None:
        _check_side(self.pixels)

    def layout(self, width: int, height: int) -> Layout:
        ratio = self.pixels / min(width, height)
        wide, high = max(1, round(width * ratio)), max(1, round(height * ratio))
        return Layout(wide, high, wide, high)


@dataclass(frozen=True)
class Within:
    """The longer side at most `pixels`, aspect kept, nothing cut; a smaller picture as it is."""

    pixels: int

    def __post_init__(self) -> None:
        _check_side(self.pixels)

    def layout(self, width: int, height: int) -> Layout:
        ratio = min(1.0, self.pixels / max(width, height))
        wide, high = max(1, round(width * ratio)), max(1, round(height * ratio))
        return Layout(wide, high, wide, high)


@dataclass(frozen=True)
class CentreCrop:
    """The shorter side to `pixels`, then the middle square: things keep their shape, the edges are lost."""

    pixels: int

    def __post_init__(self) -> None:
        _check_side(self.pixels)

    def layout(self, width: int, height: int) -> Layout:
        scaled = ShortSide(self.pixels).layout(width, height)
        return Layout(scaled.width, scaled.height, self.pixels, self.pixels)


def _check_side(*sides: int) -> None:
    if not all(1 <= side <= 16_384 for side in sides):
        raise WatchwordError(f"a picture's side is 1 to 16384 pixels, not {' x '.join(map(str, sides))}")


class Converter:
    """Frames of one video -> pictures of one shape, upright, as a player shows them."""

    def __init__(self, size: Size, aspect: Fraction | None) -> None:
        self.size = size
        self.aspect = aspect  # width of a pixel by its height
        self.reformatter = VideoReformatter()
        self.layout: Layout | None = None  # of the first frame: a video that changes its size midway keeps the first

    def picture(self, frame: VideoFrame) -> NDArray[np.uint8]:
        matrix = display_matrix(frame)
        if self.layout is None:
            self.layout = self.size.layout(*upright_size(frame, self.aspect))
        layout = self.layout
        if layout.width * layout.height > MAX_PIXELS:
            raise WatchwordError(
                f"{frame.width}x{frame.height} pixels would become {layout.width}x{layout.height}, "
                f"at most {MAX_PIXELS // 1_000_000} million are made; ask for a smaller size, or squash"
            )
        scaled = self._scaled(frame, layout, sideways=matrix[0, 0] == 0)
        pixels = turn(np.asarray(scaled.to_ndarray(), np.uint8), matrix)  # (H, W, 3)
        top, left = (layout.height - layout.crop_height) // 2, (layout.width - layout.crop_width) // 2
        return pixels[top : top + layout.crop_height, left : left + layout.crop_width]

    def _scaled(self, frame: VideoFrame, layout: Layout, sideways: bool) -> VideoFrame:
        try:
            return self.reformatter.reformat(
                frame,
                width=layout.height if sideways else layout.width,
                height=layout.width if sideways else layout.height,
                format="rgb24",
                interpolation=INTERPOLATION,
                threads=1,
            )
        except FFmpegError as error:  # a side of tens of thousands of pixels: the kernel would be too wide
            raise WatchwordError(
                f"a frame of {frame.width}x{frame.height} pixels cannot be scaled to {layout.width}x{layout.height}: "
                "crop or scale it first"
            ) from error


INTERPOLATION = "BILINEAR"  # swscale widens its kernel when it shrinks, so this averages and does not alias


def display_matrix(frame: VideoFrame) -> NDArray[np.int64]:
    """How to turn and mirror the frame, to the nearest quarter turn: (2, 2) of -1, 0, 1, a row for x and one for y."""
    data = frame.side_data.get("DISPLAYMATRIX")
    if not isinstance(data, SideData):
        return np.eye(2, dtype=np.int64)
    a, b, _, c, d = np.frombuffer(memoryview(data), np.int32)[:5].astype(np.float64)
    matrix = np.array([[a, c], [b, d]])  # x' = a x + c y, y' = b x + d y
    straight = abs(a) + abs(d) >= abs(b) + abs(c)
    signs = np.sign(np.where(np.eye(2, dtype=bool) == straight, matrix, 0)).astype(np.int64)
    return signs if abs(signs).sum() == 2 else np.eye(2, dtype=np.int64)


def turn(pixels: NDArray[np.uint8], matrix: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The picture with its axes exchanged and mirrored as the matrix says."""
    if matrix[0, 0] == 0:  # x' comes from y
        pixels = pixels.transpose(1, 0, 2)
    across, down = matrix[0].sum(), matrix[1].sum()
    return pixels[::down, ::across]


def upright_size(frame: VideoFrame, aspect: Fraction | None) -> tuple[int, int]:
    """Width and height as a player shows them: square pixels, turned."""
    width, height = frame.width, frame.height
    if aspect is not None and Fraction(1, 4) <= aspect <= 4:  # others are wrong
        width = max(1, round(width * aspect))
    return (height, width) if display_matrix(frame)[0, 0] == 0 else (width, height)
