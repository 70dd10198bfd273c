"""Streams of a drawn video without any pretrained network: colours, edges and their places, from the pixels alone.

Only the boxes of `regions` come from the truth, as a detector (of `moving_regions`: a tracker) would give them. Every
stream but `motion`, `movement` and `moving_regions` is a function of single frames (and of the video's background,
without order): its mean over time is the same for a video and for the video played backwards. Those are functions
of neighbouring frames and change their sign.

`scene`, `movement` and `moving_regions` make a data set in which only a region shows the subject and its appearance:
the other two show where it is, when something happens and which way, but not what it is.

| stream | locations | content |
|---|---|---|
| appearance | 1 | per colour: how much, where, how wide, contour, grain; all edges; the background at four heights |
| appearance_grid | 4 x 4 | colours, edges, fine grain, mean colour, place |
| regions | K boxes | colours, edges, fine grain, a 5 x 5 thumbnail of the silhouette, mean colour, box |
| motion | 1 | per colour: change of amount, place, width; colours and contour of what moves; flow, over all and 2 x 2 |
| scene | 1 | the background at four heights, and nothing else |
| movement | 1 | flow and change of light, over all and 2 x 2: when, where and which way, not what |
| moving_regions | K boxes | `regions`, and how, and how much, box, colours and light change: in one frame, who acts |
| layer1 | 16 x 16 | edges and fine grain without colour: textures, contours |
| layer2 | 8 x 8 | colours and contours of things without grain: objects |
| layer3 | 4 x 4 | light and colour of the background, near and over all: the scene |
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from watchword.errors import unknown
from watchword.research.shapes.videos import DrawnVideo
from watchword.types import FloatArray, StreamArrays

STREAMS = (
    "appearance",
    "appearance_grid",
    "regions",
    "motion",
    "scene",
    "movement",
    "moving_regions",
    "layer1",
    "layer2",
    "layer3",
)
HUES = (
    (220, 40, 40),
    (245, 140, 30),
    (245, 215, 40),
    (40, 170, 60),  # prototypes of chromatic colour words
    (40, 200, 195),
    (45, 95, 230),
    (140, 60, 190),
    (250, 140, 190),
)
ANGLES = 8
HALF_TURN, FULL_TURN = np.pi, 2 * np.pi
NOISE = 0.06  # a gradient below it is grain of the video
CROP = 10  # sampled points a side in a region
WHOLE_PICTURE = np.array([[0.0, 0.0, 1.0, 1.0]])


def streams_of(drawn: DrawnVideo, names: tuple[str, ...] = STREAMS, regions_every: int = 1) -> dict[str, StreamArrays]:
    """The named streams of a video; float32. Regions: of the middle one of each `regions_every` frames."""
    maps = _look(drawn.pictures)
    found = {}
    for name in names:
        if name not in STREAMS:
            raise unknown("stream of shapes", name, STREAMS)
        mask = None
        if name in ("regions", "moving_regions"):
            boxes, mask = drawn.truth.boxes, drawn.truth.visible
            values = (_regions if name == "regions" else _moving_regions)(maps, boxes) * mask[..., None]
        elif name == "appearance":
            values, boxes = _appearance(maps), WHOLE_PICTURE
        elif name == "motion":
            values, boxes = _motion(maps), WHOLE_PICTURE
        elif name == "scene":
            values, boxes = _scene(maps), WHOLE_PICTURE
        elif name == "movement":
            values, boxes = _movement(maps)[:, None], WHOLE_PICTURE
        elif name == "appearance_grid":
            values, boxes = _appearance_grid(maps, 4), grid_boxes(4)
        elif name == "layer1":
            values, boxes = _layer1(maps, 16), grid_boxes(16)
        elif name == "layer2":
            values, boxes = _layer2(maps, 8), grid_boxes(8)
        else:
            values, boxes = _layer3(maps, 4), grid_boxes(4)
        times = drawn.times
        if mask is not None and regions_every > 1:
            rows = slice(regions_every // 2, None, regions_every)
            values, times, boxes, mask = values[rows], times[rows], boxes[rows], mask[rows]
        found[name] = StreamArrays(
            np.ascontiguousarray(values, np.float32), times, np.ascontiguousarray(boxes, np.float32), mask
        )
    return found


def grid_boxes(side: int) -> FloatArray:
    """(side * side, 4): the cells of a grid, row by row."""
    y, x = np.divmod(np.arange(side * side), side)
    return np.stack([x, y, x + 1, y + 1], axis=1) / side


@dataclass(frozen=True)
class Maps:
    """Features of every pixel."""

    picture: FloatArray  # (F, H, W, 3) 0..1
    background: FloatArray  # (H, 3) the usual colour of a row over the video
    things: FloatArray  # (F, H, W) how unlike the background, 0..1
    hues: FloatArray  # (F, H, W, 8) which colour word a thing's pixel is nearest to
    light: FloatArray  # (F, H, W) luminance
    slope: FloatArray  # (F, H, W, 2) its gradient, x and y
    edges: FloatArray  # (F, H, W, 8) gradient by orientation: from dark to light is as from light to dark
    contour: FloatArray  # (F, H, W, 8) gradient of the things by direction: which way is out, no texture inside
    grain: FloatArray  # (F, H, W) what differs from pixel to pixel


def _look(pictures: NDArray[np.uint8]) -> Maps:
    picture = pictures.astype(np.float32) / 255
    # Things cover less than half of a row over the whole video, so its median is background.
    background = np.median(pictures[:, :, ::4].swapaxes(0, 1).reshape(pictures.shape[1], -1, 3), axis=1) / 255
    background = background.astype(np.float32)
    unlike = np.abs(picture - background[:, None])
    # Channel by channel: numpy is ten times slower along a last axis of three.
    unlike = np.maximum(np.maximum(unlike[..., 0], unlike[..., 1]), unlike[..., 2])
    things = np.clip((unlike - 0.06) * 6, 0, 1)
    hues = np.zeros((*things.shape, len(HUES)), np.float32)
    where = np.nonzero(things)  # a tenth of all pixels: the rest costs nothing
    red, green, blue = (pictures[where] >> 3).astype(np.int64).T
    hues[where] = _hue_table()[(red << 10) + (green << 5) + blue] * things[where][:, None]
    light = picture @ np.array([0.3, 0.6, 0.1], np.float32)
    slope = _slope(light)
    grain = np.zeros_like(light)
    inner = light[:, 1:-1, 1:-1]
    around = light[:, 1:-1, 2:] + light[:, 1:-1, :-2] + light[:, 2:, 1:-1] + light[:, :-2, 1:-1]
    grain[:, 1:-1, 1:-1] = np.abs(4 * inner - around)
    edges, contour = _edges(slope, HALF_TURN), _edges(_slope(things), FULL_TURN)
    return Maps(picture, background, things, hues, light, slope, edges, contour, grain)


def _slope(plane: FloatArray) -> FloatArray:
    """(F, H, W, 2): central differences in x and y."""
    slope = np.zeros((*plane.shape, 2), np.float32)
    slope[:, :, 1:-1, 0] = plane[:, :, 2:] - plane[:, :, :-2]
    slope[:, 1:-1, :, 1] = plane[:, 2:] - plane[:, :-2]
    return slope


def _edges(slope: FloatArray, period: float) -> FloatArray:
    """(F, H, W, 8): the gradient by its angle within a period."""
    edges = np.zeros((*slope.shape[:-1], ANGLES), np.float32)
    where = np.nonzero(slope[..., 0] ** 2 + slope[..., 1] ** 2 > NOISE**2)
    x, y = np.rint(np.clip(slope[where], -1, 1) * 31).astype(np.int64).T + 31
    edges[where] = _edge_table(period)[x, y]
    return edges


@cache
def _hue_table() -> FloatArray:
    """(32768, 8): soft assignment of a quantised colour to the colour words; brightness counts less than hue."""
    levels = (np.arange(32) + 0.5) * 8
    colours = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), -1).reshape(-1, 3)

    def opponent(rgb: FloatArray) -> FloatArray:
        light = rgb.mean(-1, keepdims=True)
        return np.concatenate([rgb - light, 0.35 * light], -1)

    distance = ((opponent(colours)[:, None] - opponent(np.array(HUES, np.float64))) ** 2).sum(-1)
    weights = np.exp(-(distance - distance.min(1, keepdims=True)) / (2 * 22.0**2))
    vivid = np.clip((np.ptp(colours, axis=1) - 25) / 70, 0, 1)  # white stripes of red are no pink
    table = weights / weights.sum(1, keepdims=True) * vivid[:, None]
    return np.asarray(table, np.float32)


@cache
def _edge_table(period: float) -> FloatArray:
    """(63, 63, 8): a gradient shared out between the two nearest of eight angles; noise is no edge."""
    x, y = np.meshgrid(np.arange(-31, 32), np.arange(-31, 32), indexing="ij")
    strength = np.clip(np.hypot(x, y) / 31 - NOISE, 0, 1)
    place = np.arctan2(y, x) % period / period * ANGLES
    gap = np.abs(place[..., None] - np.arange(ANGLES))
    near = np.clip(1 - np.minimum(gap, ANGLES - gap), 0, 1)
    return np.asarray(near * strength[..., None], np.float32)


def _places(side: int) -> FloatArray:
    """-1..1 across `side` pixels or cells."""
    return ((np.arange(side) + 0.5) * (2 / side) - 1).astype(np.float32)


def _strengths(planes: tuple[FloatArray, ...], side: int) -> FloatArray:
    """(F, N, D): the square roots of means over cells, so that a small thing counts too."""
    return np.concatenate([2 * np.sqrt(_cells(plane, side)) for plane in planes], -1)


def _cells(values: FloatArray, side: int) -> FloatArray:
    """Means over the cells of a grid: (F, H, W, D) or (F, H, W) -> (F, side * side, D)."""
    frames, height, width = values.shape[:3]
    size = values.shape[3] if values.ndim == 4 else 1
    rows = values.reshape(frames, side, height // side, -1).sum(2)  # whole rows first: contiguous
    cells = rows.reshape(frames, side, side, width // side, size).sum(3)
    pooled: FloatArray = cells.reshape(frames, side * side, size) / (height // side * (width // side))
    return pooled


def _by_colour(maps: Maps) -> tuple[FloatArray, FloatArray]:
    """Of every colour, share of the picture, place and spread (F, 8, 4); and the pixels it has, with a floor (F, 8)."""
    height, width = maps.light.shape[1:]
    x, y = (axis.ravel() for axis in np.meshgrid(_places(width), _places(height)))
    fixed = np.stack([np.ones_like(x), x, y, x * x + y * y], -1)  # (HW, 4)
    mass, across, down, square = np.moveaxis(_pixels(maps.hues).swapaxes(1, 2) @ fixed, -1, 0)  # (F, 8)
    amount = mass + 0.002 * height * width  # no place without a thing
    across, down = across / amount, down / amount
    spread = np.sqrt(np.clip(square / amount - across**2 - down**2, 0, None))
    return np.stack([4 * np.sqrt(mass / (height * width)), across, down, 2 * spread], -1), amount


def _pixels(plane: FloatArray) -> FloatArray:
    """(F, H, W) or (F, H, W, D) -> (F, HW, D)."""
    return plane.reshape(plane.shape[0], plane.shape[1] * plane.shape[2], -1)


def _appearance(maps: Maps) -> FloatArray:
    """Each colour with what lies at its pixels: the product keeps whose place, contour and grain they are."""
    frames = len(maps.light)
    places, amount = _by_colour(maps)
    hues = _pixels(maps.hues).swapaxes(1, 2)  # (F, 8, HW)
    bound = np.concatenate([hues @ _pixels(maps.contour), hues @ _pixels(maps.grain)], -1)  # (F, 8, 9)
    things = np.concatenate([places, 3 * np.sqrt(bound / amount[..., None])], -1).reshape(frames, -1)
    edges = _strengths((maps.edges,), 1)[:, 0] * 2  # (F, 8)
    return np.concatenate([things, edges, _scene(maps)[:, 0]], -1)[:, None]


def _scene(maps: Maps) -> FloatArray:
    """The background at four heights, the same in all frames."""
    frames, height = maps.light.shape[:2]
    rows = maps.background.reshape(4, height // 4, 3).mean(1).reshape(-1)  # (12,)
    return np.broadcast_to(rows, (frames, 1, 12))


def _appearance_grid(maps: Maps, side: int) -> FloatArray:
    strengths = _strengths((maps.things, maps.hues, maps.edges, maps.grain), side)  # (F, N, 18)
    return np.concatenate([strengths, _cells(maps.picture, side), _grid_places(len(strengths), side)], -1)


def _grid_places(frames: int, side: int) -> FloatArray:
    """(F, N, 2): where each cell is."""
    x, y = np.meshgrid(_places(side), _places(side))
    return np.broadcast_to(np.stack([x.ravel(), y.ravel()], -1), (frames, side * side, 2))


def _regions(maps: Maps, boxes: FloatArray) -> FloatArray:
    """Points sampled in every box (F, K, 4), then pooled."""
    at = _points(maps, boxes)
    seen = np.concatenate([maps.hues[at], maps.edges[at], maps.grain[at][..., None]], -1)  # (F, K, CROP, CROP, 17)
    strength = np.sqrt(seen.mean((2, 3))) * 2
    half = CROP // 2
    thumbnail = maps.things[at].reshape(*boxes.shape[:2], half, 2, half, 2).mean((3, 5)).reshape(*boxes.shape[:2], -1)
    low, high = boxes[..., :2], boxes[..., 2:]
    geometry = np.concatenate([low + high - 1, 3 * (high - low)], -1)  # centre -1..1, extent
    return np.concatenate([strength, thumbnail, maps.picture[at].mean((2, 3)), geometry], -1)


def _moving_regions(maps: Maps, boxes: FloatArray) -> FloatArray:
    """Regions, and between neighbouring frames: how colours and box change, and how much they and the light do.

    The amounts stand apart because attention scores a region nearly linearly: what moves left or right must have equal
    features. They are about as large as the features of a region's appearance.
    """
    values = _regions(maps, boxes)  # (F, K, 49)
    changes = 5 * _between_neighbours(np.concatenate([values[..., : len(HUES)], values[..., -4:]], -1))
    colours, box = np.abs(changes[..., : len(HUES)]), np.abs(changes[..., len(HUES) :])
    light = np.abs(_between_neighbours(maps.light))[_points(maps, boxes)].mean((2, 3))
    amounts = 3 * np.concatenate([box, colours.sum(-1, keepdims=True), 10 * light[..., None]], -1)
    return np.concatenate([values, changes, amounts], -1)


def _points(maps: Maps, boxes: FloatArray) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Frame, row and column of CROP x CROP points in every box (F, K, 4): an index of (F, K, CROP, CROP) pixels."""
    frames, height, width = maps.light.shape
    inside = (np.arange(CROP) + 0.5) / CROP
    x = boxes[..., :1] + (boxes[..., 2:3] - boxes[..., :1]) * inside  # (F, K, CROP)
    y = boxes[..., 1:2] + (boxes[..., 3:] - boxes[..., 1:2]) * inside
    column, row = (x * width).astype(np.int64), (y * height).astype(np.int64)
    return (
        np.arange(frames)[:, None, None, None],
        np.minimum(row, height - 1)[..., :, None],
        np.minimum(column, width - 1)[..., None, :],
    )


def _motion(maps: Maps) -> FloatArray:
    """How each colour moves and changes, how what moves looks, and the normal flow over all and in 2 x 2 cells."""
    frames = len(maps.light)
    found = [_between_neighbours(_by_colour(maps)[0]) * 10]  # (F, 8, 4)
    moving = _pixels(np.abs(_between_neighbours(maps.light))).swapaxes(1, 2)  # (F, 1, HW)
    amount = moving.sum(-1, keepdims=True) + 0.002 * moving.shape[-1]
    found += [2 * np.sqrt(moving @ _pixels(plane) / amount) for plane in (maps.hues, maps.contour)]
    return np.concatenate([*(part.reshape(frames, -1) for part in found), _movement(maps)], -1)[:, None]


def _movement(maps: Maps) -> FloatArray:
    """The normal flow and the change of light, over all and in 2 x 2 cells, (F, 15)."""
    frames = len(maps.light)
    change = _between_neighbours(maps.light)
    slope_x, slope_y = maps.slope[..., 0], maps.slope[..., 1]
    planes = (-change * slope_x, -change * slope_y, slope_x**2 + slope_y**2, np.abs(change))
    found = []
    for side in (1, 2):
        cells = np.concatenate([_cells(plane, side) for plane in planes], -1)  # (F, N, 4)
        found += [4 * cells[..., :2] / (cells[..., 2:3] + 0.002), 40 * cells[..., 3:]]
    return np.concatenate([part.reshape(frames, -1) for part in found], -1)


def _between_neighbours(values: FloatArray) -> FloatArray:
    """Half the difference of the two frames around each; nothing at the two ends of the video, (F, ...)."""
    change = np.zeros_like(values)
    change[1:-1] = (values[2:] - values[:-2]) / 2
    return change


def _layer1(maps: Maps, side: int) -> FloatArray:
    return _strengths((maps.edges, maps.grain), side)


def _layer2(maps: Maps, side: int) -> FloatArray:
    return _strengths((maps.things, maps.hues, maps.contour), side)


def _layer3(maps: Maps, side: int) -> FloatArray:
    """The background of each cell's rows, of the whole picture, and the cell's light."""
    frames, height = maps.light.shape[:2]
    rows = maps.background.reshape(side, height // side, 3).mean(1)  # (side, 3)
    near = np.broadcast_to(np.repeat(rows, side, axis=0), (frames, side * side, 3))
    far = np.broadcast_to(maps.background.reshape(2, -1, 3).mean(1).ravel(), (frames, side * side, 6))
    light = _cells(maps.light, side)
    return np.concatenate([near, far, light], -1) * 2
