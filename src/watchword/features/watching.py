"""A look at one film: which frames it wants of the decoder, and what a network makes of them.

A watcher is the plan *and* the size of its view: the decoder asks it when and how large, and so tells it what the film
is like (its timeline, its shape) without a second walk over the packets.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from watchword.backbones.flow import pixel_flow
from watchword.backbones.roi import pool_regions
from watchword.errors import WatchwordError
from watchword.features.looks import FlowLook, Look, PictureLook, RegionLook, WindowLook
from watchword.features.networks import DETECTORS, FLOWS, PICTURES, WINDOWS, Backbone, Networks, find
from watchword.types import FloatArray, Frames, evenly
from watchword.video import CentreCrop, Squash, Timeline
from watchword.video.transforms import Layout

WHOLE = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class Moments:
    """Some consecutive moments of a film, seen or heard."""

    times: FloatArray                    # (F,) seconds
    layers: dict[str, Tensor]            # by the network's own names, each (F, ...), channels last
    backbone: Backbone                   # says which of them is what
    seen: tuple[float, float, float, float] = WHOLE  # the part of the picture that the network saw: x0 y0 x1 y1
    seconds: float = 0.0                 # that one moment lasts, where it is a window of frames
    boxes: Tensor | None = None          # (F, N, 4) where a detector looked
    mask: Tensor | None = None           # (F, N)
    notes: tuple[tuple[str, ...], ...] = ()  # (F, up to N) what each box holds


class Watcher(Protocol):
    """A view of one film, and what is made of its frames."""

    def times(self, timeline: Timeline) -> FloatArray: ...
    def layout(self, width: int, height: int) -> Layout: ...
    def see(self, frames: Frames) -> Iterator[Moments]: ...


class PictureWatcher:
    """Single frames through a picture network."""

    def __init__(self, look: Look, networks: Networks, most: int | None = None) -> None:
        self.look = look
        self.most = most    # of more moments, only so many, evenly chosen: what a captioner reads of them
        self.seen = WHOLE
        self.prepare(networks)

    def prepare(self, networks: Networks) -> None:
        self.backbone = find("picture network", PICTURES, self.look.backbone)
        self.network = networks.get(PICTURES, self.look.backbone, self.look.weights)

    def times(self, timeline: Timeline) -> FloatArray:
        return self.instants(timeline)

    def instants(self, timeline: Timeline) -> FloatArray:
        times = self.look.instants(timeline)
        return times[evenly(len(times), self.most)]

    def layout(self, width: int, height: int) -> Layout:
        pixels = self.look.pixels or self.backbone.pixels
        size = Squash(pixels, pixels) if self.look.aspect == "squash" else CentreCrop(pixels)
        layout = size.layout(width, height)
        across, down = layout.crop_width / layout.width, layout.crop_height / layout.height
        self.seen = ((1 - across) / 2, (1 - down) / 2, (1 + across) / 2, (1 + down) / 2)
        return layout

    def see(self, frames: Frames) -> Iterator[Moments]:
        """A frame that is on screen at several of the moments goes through the network once."""
        _, first, rows = np.unique(frames.times, return_index=True, return_inverse=True)
        layers = self.network(torch.from_numpy(frames.pictures[first]))
        if len(first) < len(rows):
            layers = {name: layer[torch.from_numpy(rows)] for name, layer in layers.items()}
        yield Moments(frames.times, layers, self.backbone, self.seen)


class RegionWatcher(PictureWatcher):
    """Things in single frames: a detector's boxes, and what a picture network sees inside each."""

    look: RegionLook

    def prepare(self, networks: Networks) -> None:
        self.backbone = find("detector", DETECTORS, self.look.backbone)
        eye = find("picture network", PICTURES, self.look.eye)
        self.network = networks.get(DETECTORS, self.look.backbone, self.look.weights)
        self.eye, self.grid = networks.get(PICTURES, self.look.eye, self.look.eye_weights), eye.grid

    def see(self, frames: Frames) -> Iterator[Moments]:
        pictures = torch.from_numpy(frames.pictures)
        detector: Any = self.network
        found = detector.detect(pictures, k=self.look.regions)
        layers = self.eye(pictures)
        if self.grid not in layers:
            raise WatchwordError(f"{self.look.eye} gives no grid to look for regions in: take another eye")
        grid = layers[self.grid].permute(0, 3, 1, 2)  # (F, D, h, w)
        vectors = pool_regions(grid, found.boxes) * found.mask.unsqueeze(2)  # (F, N, D)
        notes = tuple(
            tuple(f"{detector.class_names[kind]} {score:.2f}" for kind, score, real in zip(*row, strict=True) if real)
            for row in zip(found.classes.tolist(), found.scores.tolist(), found.mask.tolist(), strict=True)
        )
        boxes = within(self.seen, found.boxes) * found.mask.unsqueeze(2)
        yield Moments(frames.times, {"regions": vectors}, self.backbone, self.seen, 0.0, boxes, found.mask, notes)


class WindowWatcher(PictureWatcher):
    """Windows of frames through a motion network, one window at a time.

    Windows may overlap; each frame is decoded and converted once. Beyond the film's ends its first and last frame stand
    still, so that a window's middle is always the moment that was asked for: the presentation time of the frame then on
    screen, as in a stream of single frames with the same sampling.
    """

    look: WindowLook

    def prepare(self, networks: Networks) -> None:
        self.backbone = WINDOWS[self.look.backbone]
        self.network = networks.get(WINDOWS, self.look.backbone, self.look.weights)

    def times(self, timeline: Timeline) -> FloatArray:
        centres = self.instants(timeline)  # (windows,)
        steps = (np.arange(self.look.frames) - (self.look.frames - 1) / 2) / self.look.frame_rate
        shown = on_screen(timeline, (centres[:, None] + steps).ravel())  # numbers of frames
        wanted, places = np.unique(shown, return_inverse=True)
        self.windows = places.reshape(len(centres), -1)  # (windows, frames) places among the wanted frames
        self.centres = timeline.times[on_screen(timeline, centres)]
        self.next_window, self.next_frame = 0, 0
        self.held: dict[int, Any] = {}  # pictures by place, those that a coming window needs
        return timeline.times[wanted]

    def see(self, frames: Frames) -> Iterator[Moments]:
        for picture in frames.pictures:
            self.held[self.next_frame] = picture
            self.next_frame += 1
        while self.next_window < len(self.windows) and self.windows[self.next_window, -1] < self.next_frame:
            window = self.windows[self.next_window]
            clip = torch.from_numpy(np.stack([self.held[place] for place in window.tolist()]))  # (frames, H, W, 3)
            time = self.centres[self.next_window : self.next_window + 1]
            yield Moments(time, self.judge(clip), self.backbone, self.seen, self.look.frames / self.look.frame_rate)
            self.next_window += 1
            begin = self.windows[self.next_window, 0] if self.next_window < len(self.windows) else self.next_frame
            for place in [place for place in self.held if place < begin]:
                del self.held[place]

    def judge(self, clip: Tensor) -> dict[str, Tensor]:
        """Layers of one window, each (1, ...)."""
        layers: dict[str, Tensor] = self.network(clip.unsqueeze(0))
        return layers


class FlowWatcher(WindowWatcher):
    """Windows of optical flow: through I3D's flow network, or described by hand."""

    look: FlowLook

    def prepare(self, networks: Networks) -> None:
        self.backbone = FLOWS[self.look.backbone]
        self.network = networks.get(FLOWS, self.look.backbone, self.look.weights)

    def judge(self, clip: Tensor) -> dict[str, Tensor]:
        motion = pixel_flow(clip)  # (frames - 1, 2, H, W)
        if isinstance(self.network, nn.Identity):
            cells = describe_flow(motion).unsqueeze(0)  # (1, 4, 4, 9)
            return {"pooled": cells.flatten(1), "grid": cells}
        layers: dict[str, Tensor] = self.network(motion.permute(0, 2, 3, 1).unsqueeze(0))
        return layers


CELLS, DIRECTIONS = 4, 8


def describe_flow(motion: Tensor) -> Tensor:
    """Where things move, how fast and in which direction: (steps, 2, H, W) pixels -> (CELLS, CELLS, 9).

    Histograms of flow as in Laptev et al. 2008: each pixel gives its speed to the two nearest of eight directions, and
    the mean over time and over each of 4 x 4 cells is kept; the ninth number is the mean square, which tells a little
    motion everywhere from much in one place. Speeds are in hundredths of the picture's width.
    """
    across, down = motion.mul(100 / motion.shape[3]).unbind(1)  # (steps, H, W)
    speed = torch.hypot(across, down)
    turn = torch.atan2(down, across) / (2 * torch.pi) * DIRECTIONS % DIRECTIONS
    ways = torch.arange(DIRECTIONS).view(-1, 1, 1, 1)
    distance = (turn - ways).abs()
    share = (1 - torch.minimum(distance, DIRECTIONS - distance)).clamp(min=0)  # (8, steps, H, W)
    maps = torch.cat([(share * speed).mean(1), speed.square().mean(0, keepdim=True)])  # (9, H, W)
    return torch.nn.functional.adaptive_avg_pool2d(maps, CELLS).permute(1, 2, 0)


WATCHERS: dict[type[Look], type[PictureWatcher]] = {
    PictureLook: PictureWatcher,
    RegionLook: RegionWatcher,
    WindowLook: WindowWatcher,
    FlowLook: FlowWatcher,
}


def on_screen(timeline: Timeline, seconds: FloatArray) -> Any:
    """The number of the frame that is shown at each time; before the film the first, after it the last."""
    return (np.searchsorted(timeline.times, seconds + 1e-6, side="right") - 1).clip(0)


def within(seen: tuple[float, float, float, float], boxes: Tensor) -> Tensor:
    """Boxes in 0..1 of what the network saw -> 0..1 of the whole picture."""
    x0, y0, x1, y1 = seen
    return boxes * boxes.new_tensor([x1 - x0, y1 - y0] * 2) + boxes.new_tensor([x0, y0] * 2)
