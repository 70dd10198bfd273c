"""Streams of a drawn film without any pretrained network: colours, edges and their places, from the pixels alone.

Only the boxes of `regions` come from the truth, as a detector would give them. Every stream but `motion` is a function
of single frames (and of the film's background, which knows no order): its mean over time is the same for a film and
for the film played backwards. `motion` is a function of neighbouring frames and changes its sign.

| stream | places | what it sees |
|---|---|---|
| appearance | 1 | per colour: how much, where, how wide, which edges; the background at four heights |
| appearance_grid | 4 x 4 | colours, edges, fine grain, mean colour, place |
| regions | K boxes | colours, edges, fine grain, a 5 x 5 thumbnail of the silhouette, mean colour, box |
| motion | 1 | velocity, change, growth, of the whole and of 3 x 3 cells |
| layer1 | 16 x 16 | edges and fine grain without colour: textures, contours |
| layer2 | 8 x 8 | colours and silhouettes of things without grain: objects |
| layer3 | 4 x 4 | light and colour of the background, near and over all: the scene |
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from watchword.data.shapes.films import Film
from watchword.errors import unknown
from watchword.records import FloatArray, StreamArrays

STREAMS = ("appearance", "appearance_grid", "regions", "motion", "layer1", "layer2", "layer3")
HUES = ((220, 40, 40), (245, 140, 30), (245, 215, 40), (40, 170, 60),   # prototypes of chromatic colour words
        (40, 200, 195), (45, 95, 230), (140, 60, 190), (250, 140, 190))  # fmt: skip
ORIENTATIONS = 8
NOISE = 0.06    # a gradient below it is grain of the film
CROP = 10       # sampled points a side in a region
WHOLE_PICTURE = np.array([[0.0, 0.0, 1.0, 1.0]])


def streams_of(film: Film, names: tuple[str, ...] = STREAMS) -> dict[str, StreamArrays]:
    """The named streams of a film; float32."""
    maps = _look(film.pictures)
    found = {}
    for name in names:
        if name not in STREAMS:
            raise unknown("stream of shapes", name, STREAMS)
        mask = None
        if name == "regions":
            boxes, mask = film.truth.boxes, film.truth.visible
            values = _regions(maps, boxes) * mask[..., None]
        elif name == "appearance":
            values, boxes = _appearance(maps), WHOLE_PICTURE
        elif name == "motion":
            values, boxes = _motion(maps), WHOLE_PICTURE
        elif name == "appearance_grid":
            values, boxes = _appearance_grid(maps, 4), grid_boxes(4)
        elif name == "layer1":
            values, boxes = _layer1(maps, 16), grid_boxes(16)
        elif name == "layer2":
            values, boxes = _layer2(maps, 8), grid_boxes(8)
        else:
            values, boxes = _layer3(maps, 4), grid_boxes(4)
        found[name] = StreamArrays(
            np.ascontiguousarray(values, np.float32), film.times, np.ascontiguousarray(boxes, np.float32), mask
        )
    return found


def grid_boxes(side: int) -> FloatArray:
    """(side * side, 4): the cells of a grid, row by row."""
    y, x = np.divmod(np.arange(side * side), side)
    return np.stack([x, y, x + 1, y + 1], axis=1) / side


@dataclass(frozen=True)
class Maps:
    """What is seen at every pixel."""

    picture: FloatArray       # (F, H, W, 3) 0..1
    background: FloatArray    # (H, 3) the usual colour of a row over the film
    things: FloatArray        # (F, H, W) how unlike the background, 0..1
    hues: FloatArray          # (F, H, W, 8) which colour word a thing's pixel is nearest to
    light: FloatArray         # (F, H, W) luminance
    slope: FloatArray         # (F, H, W, 2) its gradient, x and y
    edges: FloatArray         # (F, H, W, 8) gradient by orientation
    grain: FloatArray         # (F, H, W) what differs from pixel to pixel


def _look(pictures: NDArray[np.uint8]) -> Maps:
    picture = pictures.astype(np.float32) / 255
    # Things cover less than half of a row over the whole film, so its median is background.
    background = np.median(pictures[:, :, ::4].swapaxes(0, 1).reshape(pictures.shape[1], -1, 3), axis=1) / 255
    background = background.astype(np.float32)
    things = np.clip((np.abs(picture - background[:, None]).max(-1) - 0.06) * 6, 0, 1)
    hues = np.zeros((*things.shape, len(HUES)), np.float32)
    where = np.nonzero(things)                                     # a tenth of all pixels: the rest costs nothing
    red, green, blue = (pictures[where] >> 3).astype(np.int64).T
    hues[where] = _hue_table()[(red << 10) + (green << 5) + blue] * things[where][:, None]
    light = picture @ np.array([0.3, 0.6, 0.1], np.float32)
    slope = _slope(light)
    grain = np.zeros_like(light)
    inner = light[:, 1:-1, 1:-1]
    around = light[:, 1:-1, 2:] + light[:, 1:-1, :-2] + light[:, 2:, 1:-1] + light[:, :-2, 1:-1]
    grain[:, 1:-1, 1:-1] = np.abs(4 * inner - around)
    return Maps(picture, background, things, hues, light, slope, _edges(slope), grain)


def _slope(plane: FloatArray) -> FloatArray:
    """(F, H, W, 2): central differences in x and y."""
    slope = np.zeros((*plane.shape, 2), np.float32)
    slope[:, :, 1:-1, 0] = plane[:, :, 2:] - plane[:, :, :-2]
    slope[:, 1:-1, :, 1] = plane[:, 2:] - plane[:, :-2]
    return slope


def _edges(slope: FloatArray) -> FloatArray:
    """(F, H, W, 8): the gradient by orientation."""
    edges = np.zeros((*slope.shape[:-1], ORIENTATIONS), np.float32)
    where = np.nonzero((slope**2).sum(-1) > NOISE**2)
    x, y = np.rint(np.clip(slope[where], -1, 1) * 31).astype(np.int64).T + 31
    edges[where] = _edge_table()[x, y]
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
    vivid = np.clip(np.ptp(colours, axis=1) / 90, 0, 1)
    table = weights / weights.sum(1, keepdims=True) * vivid[:, None]
    return np.asarray(table, np.float32)


@cache
def _edge_table() -> FloatArray:
    """(63, 63, 8): a gradient shared out between the two nearest of eight orientations; noise is no edge."""
    x, y = np.meshgrid(np.arange(-31, 32), np.arange(-31, 32), indexing="ij")
    strength = np.clip(np.hypot(x, y) / 31 - NOISE, 0, 1)
    place = np.arctan2(y, x) % np.pi / np.pi * ORIENTATIONS
    gap = np.abs(place[..., None] - np.arange(ORIENTATIONS))
    near = np.clip(1 - np.minimum(gap, ORIENTATIONS - gap), 0, 1)
    return np.asarray(near * strength[..., None], np.float32)


def _places(side: int) -> FloatArray:
    """-1..1 across `side` pixels or cells."""
    return ((np.arange(side) + 0.5) * (2 / side) - 1).astype(np.float32)


def _cells(values: FloatArray, side: int) -> FloatArray:
    """Means over the cells of a grid: (F, H, W, D) -> (F, side * side, D)."""
    frames, height, width, size = values.shape
    cells = values.reshape(frames, side, height // side, side, width // side, size)
    # Summing rows first walks through memory in order; numpy's mean over two far axes does not.
    sums: FloatArray = cells.sum(2).sum(3).reshape(frames, side * side, size)
    return sums / (height // side * (width // side))


def _appearance(maps: Maps) -> FloatArray:
    """Each colour with what lies at its pixels: the product keeps whose place and whose edges they are."""
    frames, height, width, colours = maps.hues.shape
    x, y = (axis.ravel() for axis in np.meshgrid(_places(width), _places(height)))
    fixed = np.stack([np.ones_like(x), x, y, x * x + y * y], -1)                     # (HW, 4)
    hues = maps.hues.reshape(frames, -1, colours).swapaxes(1, 2)                     # (F, 8, HW)
    seen = np.concatenate([maps.edges, maps.grain[..., None]], -1).reshape(frames, height * width, -1)
    mass, across, down, square = np.moveaxis(hues @ fixed, -1, 0)                    # (F, 8)
    amount = mass + 0.002 * height * width                                           # no place without a thing
    across, down = across / amount, down / amount
    spread = np.sqrt(np.clip(square / amount - across**2 - down**2, 0, None))
    bound = 3 * np.sqrt((hues @ seen) / amount[..., None]) * (mass / amount)[..., None]  # (F, 8, 9)
    share = np.sqrt(mass / (height * width)) * 4
    things = np.concatenate([np.stack([share, across, down, 2 * spread], -1), bound], -1).reshape(frames, -1)
    rows = maps.background.reshape(4, height // 4, 3).mean(1).reshape(-1)            # (12,)
    return np.concatenate([things, np.broadcast_to(rows, (frames, 12))], -1)[:, None]


def _appearance_grid(maps: Maps, side: int) -> FloatArray:
    seen = np.concatenate([maps.things[..., None], maps.hues, maps.edges, maps.grain[..., None]], -1)
    strength = np.sqrt(_cells(seen, side)) * 2                                       # (F, N, 18)
    return np.concatenate([strength, _cells(maps.picture, side), _grid_places(len(strength), side)], -1)


def _grid_places(frames: int, side: int) -> FloatArray:
    """(F, N, 2): where each cell is."""
    x, y = np.meshgrid(_places(side), _places(side))
    return np.broadcast_to(np.stack([x.ravel(), y.ravel()], -1), (frames, side * side, 2))


def _regions(maps: Maps, boxes: FloatArray) -> FloatArray:
    """Points sampled in every box (F, K, 4), then pooled."""
    frames, height, width = maps.light.shape
    inside = (np.arange(CROP) + 0.5) / CROP
    x = boxes[..., :1] + (boxes[..., 2:3] - boxes[..., :1]) * inside                 # (F, K, CROP)
    y = boxes[..., 1:2] + (boxes[..., 3:] - boxes[..., 1:2]) * inside
    column, row = (x * width).astype(np.int64), (y * height).astype(np.int64)
    at = (np.arange(frames)[:, None, None, None],
          np.minimum(row, height - 1)[..., :, None], np.minimum(column, width - 1)[..., None, :])  # fmt: skip
    seen = np.concatenate([maps.hues[at], maps.edges[at], maps.grain[at][..., None]], -1)  # (F, K, CROP, CROP, 17)
    strength = np.sqrt(seen.mean((2, 3))) * 2
    half = CROP // 2
    thumbnail = maps.things[at].reshape(*boxes.shape[:2], half, 2, half, 2).mean((3, 5)).reshape(*boxes.shape[:2], -1)
    low, high = boxes[..., :2], boxes[..., 2:]
    geometry = np.concatenate([low + high - 1, 3 * (high - low)], -1)                # centre -1..1, extent
    return np.concatenate([strength, thumbnail, maps.picture[at].mean((2, 3)), geometry], -1)


def _motion(maps: Maps) -> FloatArray:
    """Normal flow and change between a frame's two neighbours; nothing is known of the film's two ends."""
    frames, height, width = maps.light.shape
    change, things = np.zeros_like(maps.light), np.zeros_like(maps.things)
    change[1:-1] = (maps.light[2:] - maps.light[:-2]) / 2
    things[1:-1] = (maps.things[2:] - maps.things[:-2]) / 2
    flow = -change[..., None] * maps.slope                                           # (F, H, W, 2)
    steep = (maps.slope**2).sum(-1, keepdims=True)
    seen = np.concatenate([flow, steep, things[..., None], np.abs(change)[..., None]], -1)  # (F, H, W, 5)
    x, y = np.meshgrid(_places(width), _places(height))
    hue_change = np.zeros((frames, maps.hues.shape[-1]), np.float32)
    amounts = maps.hues.mean((1, 2))
    hue_change[1:-1] = (amounts[2:] - amounts[:-2]) / 2
    outwards = (np.stack([x, y], -1) * flow).sum((1, 2, 3))[:, None] / (height * width)
    crop = height // 3 * 3, width // 3 * 3
    cells = [_cells(seen, 1), _cells(seen[:, : crop[0], : crop[1]], 3)]
    found = [hue_change * 150, outwards * 200]
    for cell in cells:
        velocity = cell[..., :2] / (cell[..., 2:3] + 0.002)
        found += [part.reshape(frames, -1) for part in (velocity * 4, cell[..., 3:4] * 20, cell[..., 4:] * 40)]
    return np.concatenate(found, -1)[:, None]


def _layer1(maps: Maps, side: int) -> FloatArray:
    return np.sqrt(_cells(np.concatenate([maps.edges, maps.grain[..., None]], -1), side)) * 2


def _layer2(maps: Maps, side: int) -> FloatArray:
    """Silhouettes: the edges of the map of things, which knows no texture inside them."""
    contour = _edges(_slope(maps.things))
    return np.sqrt(_cells(np.concatenate([maps.things[..., None], maps.hues, contour], -1), side)) * 2


def _layer3(maps: Maps, side: int) -> FloatArray:
    """The background of each cell's rows, of the whole picture, and the cell's light."""
    frames, height = maps.light.shape[:2]
    rows = maps.background.reshape(side, height // side, 3).mean(1)                  # (side, 3)
    near = np.broadcast_to(np.repeat(rows, side, axis=0), (frames, side * side, 3))
    far = np.broadcast_to(maps.background.reshape(2, -1, 3).mean(1).ravel(), (frames, side * side, 6))
    light = _cells(maps.light[..., None], side)
    return np.concatenate([near, far, light], -1) * 2
