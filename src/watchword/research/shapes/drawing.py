"""Painting: anti-aliased shapes with outline and texture over a scene, all frames of one object at once.

A shape is a signed distance (negative inside) in units of its radius, so that edges are smooth at any size and angle.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watchword.research.shapes.grammar import Thing
from watchword.types import FloatArray

Plane = FloatArray  # (F, P, P)

PALETTE = {
    "red": (222, 42, 42),
    "blue": (48, 96, 232),
    "green": (40, 170, 60),
    "yellow": (245, 212, 40),
    "orange": (245, 138, 30),
    "purple": (140, 60, 190),
    "pink": (250, 140, 190),
    "turquoise": (40, 200, 195),
}
SCENES = {  # sky at the top, sky at the horizon, ground at the horizon, ground at the bottom
    "studio": ((176, 176, 180), (192, 192, 194), (160, 158, 158), (140, 138, 138)),
    "night": ((10, 12, 34), (26, 30, 66), (20, 24, 40), (8, 10, 20)),
    "grass": ((150, 196, 230), (196, 222, 236), (122, 158, 88), (84, 124, 58)),
    "snow": ((178, 194, 210), (212, 222, 230), (240, 243, 248), (226, 232, 242)),
    "sand": ((160, 206, 226), (206, 226, 228), (222, 200, 150), (196, 168, 116)),
    "sunset": ((86, 60, 112), (226, 140, 104), (92, 60, 66), (52, 36, 50)),
}


@dataclass(frozen=True)
class Track:
    """One object through the video, in units of the picture."""

    thing: Thing
    centres: FloatArray  # (F, 2) x y
    radii: FloatArray  # (F,)
    opacity: FloatArray  # (F,) 0 is hidden
    angles: FloatArray  # (F,) radians
    after: str | None  # the colour it turns to
    turned: FloatArray  # (F,) 0 is the first colour, 1 the second


def paint_scene(scene: str, size: int, rng: np.random.Generator) -> FloatArray:
    """Two gradients that meet at the horizon, (H, 1, 3): a scene is known from afar, by no texture of its own."""
    top, far, near, bottom = (np.array(colour, np.float64) for colour in SCENES[scene])
    horizon = rng.uniform(0.45, 0.65)
    height = (np.arange(size) + 0.5)[:, None] / size  # (H, 1)
    sky = top + (far - top) * np.clip(height / horizon, 0, 1)
    ground = near + (bottom - near) * np.clip((height - horizon) / (1 - horizon), 0, 1)
    edge = np.clip((height - horizon) * size + 0.5, 0, 1)
    light = rng.uniform(0.94, 1.04)
    return np.asarray((sky + (ground - sky) * edge) * light, np.float32)[:, None, :]


def paint(canvas: NDArray[np.float32], margin: int, track: Track) -> FloatArray:
    """Draws one object into (F, H+2M, W+2M, 3) in place; returns its tight boxes (F, 4) in units of the picture."""
    size = canvas.shape[1] - 2 * margin
    centres, radii = track.centres * size, (track.radii * size).astype(np.float32)[:, None, None]  # pixels
    reach = int(np.ceil(1.2 * radii.max())) + 2
    local = np.arange(-reach, reach + 1)
    columns, rows = (np.floor(centres[:, axis, None]).astype(np.int64) + local for axis in (0, 1))  # (F, P)
    x = (columns + 0.5 - centres[:, :1]).astype(np.float32)[:, None, :]  # (F, 1, P)
    y = (rows + 0.5 - centres[:, 1:]).astype(np.float32)[:, :, None]  # (F, P, 1)
    angles = track.angles.astype(np.float32)[:, None, None]
    cosine, sine = np.cos(angles), np.sin(angles)
    u, v = cosine * x + sine * y, cosine * y - sine * x  # (F, P, P) in the object's own frame
    distance = SHAPES[track.thing.object](u / radii, v / radii) * radii

    cover: Plane = np.clip(0.5 - distance, 0, 1)
    outline = np.clip(0.5 - np.abs(distance + 0.5), 0, 1)  # one dark pixel, seen on every scene
    first = np.array(PALETTE[track.thing.colour], np.float32)
    last = np.array(PALETTE[track.after or track.thing.colour], np.float32)
    colour = (first + (last - first) * track.turned.astype(np.float32)[:, None])[:, None, None]  # (F, 1, 1, 3)
    light = 0.88 * _texture(track.thing.texture, u, v, size / 16)[..., None]
    coat = (colour + (255 - colour) * light) * (1 - 0.7 * outline[..., None])
    alpha = (cover * track.opacity.astype(np.float32)[:, None, None])[..., None]

    where = (np.arange(len(canvas))[:, None, None], rows[:, :, None] + margin, columns[:, None, :] + margin)
    under = canvas[where]
    canvas[where] = under + (coat - under) * alpha
    boxes: FloatArray = _tight_boxes(cover > 0.02, columns, rows) / size
    return boxes


def _texture(texture: str, u: Plane, v: Plane, period: float) -> Plane:
    """How light the pattern makes each point, 0..1; it moves and turns with the object."""
    across, along = (0.85 * u + 0.53 * v) * (2 * np.pi / period), (0.85 * v - 0.53 * u) * (2 * np.pi / period)
    if texture == "striped":
        return np.clip(0.5 + 1.5 * np.sin(across), 0, 1)
    if texture == "dotted":
        return np.clip(2 * np.cos(across) * np.cos(along) * (np.cos(across) > 0) - 0.3, 0, 1)
    if texture == "checked":
        return np.clip(0.5 + 2 * np.sin(across * 0.8) * np.sin(along * 0.8), 0, 1)
    return np.zeros_like(u)


def _tight_boxes(inside: NDArray[np.bool_], columns: NDArray[np.int64], rows: NDArray[np.int64]) -> FloatArray:
    """(F, 4) x0 y0 x1 y1 in pixels around what is inside (F, P, P)."""
    frames, last = np.arange(len(inside)), inside.shape[1] - 1
    sides = []
    for covered, pixels in ((np.any(inside, axis=1), columns), (np.any(inside, axis=2), rows)):  # (F, P)
        low, high = np.argmax(covered, axis=1), last - np.argmax(covered[:, ::-1], axis=1)
        sides += [pixels[frames, low], pixels[frames, high] + 1]
    left, right, top, bottom = sides
    return np.stack([left, top, right, bottom], axis=1).astype(np.float64)


def _circle(u: Plane, v: Plane) -> Plane:
    return np.hypot(u, v) - 0.97


def _square(u: Plane, v: Plane) -> Plane:
    return np.maximum(np.abs(u), np.abs(v)) - 0.85


def _diamond(u: Plane, v: Plane) -> Plane:
    return np.divide(np.abs(u) + 0.75 * np.abs(v) - 0.85, 1.25)


def _triangle(u: Plane, v: Plane) -> Plane:
    return np.asarray(np.maximum(v - 0.65, 0.88 * np.abs(u) - 0.475 * v - 0.5))


def _star(u: Plane, v: Plane) -> Plane:
    """Five points: folded onto half of one point, where the edge is a straight line."""
    turn = 2 * math.pi / 5
    angle = np.arctan2(u, -v)
    folded = np.abs(angle - turn * np.round(angle / turn))
    radius = np.hypot(u, v)
    tip, notch = 1.15, 0.5
    rise, run = notch * math.sin(turn / 2), tip - notch * math.cos(turn / 2)
    along, across = radius * np.cos(folded) - tip, radius * np.sin(folded)
    distance: Plane = (along * rise + across * run) / math.hypot(rise, run)
    return distance


def _heart(u: Plane, v: Plane) -> Plane:
    lobes = np.hypot(np.abs(u) - 0.45, v + 0.35) - 0.55
    point = np.maximum((np.abs(u) + v - 0.86) / 1.414, np.maximum(-v - 0.35, np.abs(u) - 1.0))
    return np.asarray(np.minimum(lobes, point))


def _cross(u: Plane, v: Plane) -> Plane:
    wide, high = np.maximum(np.abs(u) - 0.98, np.abs(v) - 0.34), np.maximum(np.abs(v) - 0.98, np.abs(u) - 0.34)
    return np.asarray(np.minimum(wide, high))


def _crescent(u: Plane, v: Plane) -> Plane:
    return np.asarray(np.maximum(np.hypot(u, v) - 1.0, 0.8 - np.hypot(u - 0.55, v)))


SHAPES: dict[str, Callable[[Plane, Plane], Plane]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "star": _star,
    "diamond": _diamond,
    "heart": _heart,
    "cross": _cross,
    "crescent": _crescent,
}
