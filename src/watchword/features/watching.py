"""A look at one film: which frames it wants of the decoder, and what a network makes of them.

A watcher is the plan *and* the size of its view: the decoder asks it when and how large, and so tells it what the film
is like (its timeline, its shape) without a second walk over the packets.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterator
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
from watchword.video.transforms import Layout, Size

WHOLE = (0.0, 0.0, 1.0, 1.0)
IMAGES = "images"  # the view of a region stream's image network, where it is not the detector's


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
    cells: int | None = None             # a side of a grid to be stored, at most


class Watcher(Protocol):
    """Views of one video, and what is made of their frames. All views have frames of the same times."""

    def times(self, timeline: Timeline) -> FloatArray: ...
    def layout(self, width: int, height: int) -> Layout: ...
    def views(self) -> dict[str, Size]: ...
    def see(self, frames: Frames, view: str = "") -> Iterator[Moments]: ...


class ImageCache:
    """Layers of a video's latest frames, so that streams which need the same image network run it once a frame.

    Correctness does not hang on it: what is not here is computed.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.capacity = capacity
        self.users: Counter[Hashable] = Counter()
        self.frames: OrderedDict[tuple[Hashable, float], dict[str, Tensor]] = OrderedDict()

    def layers(self, key: Hashable, network: nn.Module, frames: Frames) -> dict[str, Tensor]:
        """Layers (F, ...) of frames; the key names the network and the shape of its images."""
        if self.users[key] < 2:
            layers: dict[str, Tensor] = network(torch.from_numpy(frames.pictures))
            return layers
        places = [(key, time) for time in frames.times.tolist()]
        missing = [row for row, place in enumerate(places) if place not in self.frames]
        if missing:
            made = network(torch.from_numpy(frames.pictures[missing]))
            for number, row in enumerate(missing):
                self.frames[places[row]] = {name: layer[number] for name, layer in made.items()}
        rows = [self.frames[place] for place in places]
        while len(self.frames) > self.capacity:
            self.frames.popitem(last=False)
        return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}

    def clear(self) -> None:
        """Another video, or another part of it whose times begin anew."""
        self.frames.clear()


@dataclass(frozen=True)
class ImageView:
    """The size of an image network's view of frames."""

    pixels: int
    aspect: str

    def layout(self, width: int, height: int) -> Layout:
        size = Squash(self.pixels, self.pixels) if self.aspect == "squash" else CentreCrop(self.pixels)
        return size.layout(width, height)


class PictureWatcher:
    """Single frames through a picture network."""

    def __init__(self, look: Look, networks: Networks, most: int | None, cache: ImageCache) -> None:
        self.look = look
        self.most = most    # of more moments, only so many, evenly chosen: what a captioner reads of them
        self.seen = WHOLE
        self.cache = cache
        self.prepare(networks)

    def prepare(self, networks: Networks) -> None:
        self.backbone = find("picture network", PICTURES, self.look.backbone)
        self.network = networks.get(PICTURES, self.look.backbone, self.look.weights)
        self.shape = ImageView(self.look.pixels or self.backbone.pixels, self.look.aspect)
        self.cache.users[self.network, self.shape] += 1

    def views(self) -> dict[str, Size]:
        return {"": self}

    def times(self, timeline: Timeline) -> FloatArray:
        return self.instants(timeline)

    def instants(self, timeline: Timeline) -> FloatArray:
        times = self.look.instants(timeline)
        return times[evenly(len(times), self.most)]

    def layout(self, width: int, height: int) -> Layout:
        layout = ImageView(self.look.pixels or self.backbone.pixels, self.look.aspect).layout(width, height)
        across, down = layout.crop_width / layout.width, layout.crop_height / layout.height
        self.seen = ((1 - across) / 2, (1 - down) / 2, (1 + across) / 2, (1 + down) / 2)
        return layout

    def see(self, frames: Frames, view: str = "") -> Iterator[Moments]:
        """A frame that is on screen at several of the moments goes through the network once."""
        _, first, rows = np.unique(frames.times, return_index=True, return_inverse=True)
        once = Frames(frames.pictures[first], frames.times[first])
        layers = self.cache.layers((self.network, self.shape), self.network, once)
        if len(first) < len(rows):
            layers = {name: layer[torch.from_numpy(rows)] for name, layer in layers.items()}
        cells = self.look.cells if isinstance(self.look, PictureLook) else None
        yield Moments(frames.times, layers, self.backbone, self.seen, cells=cells)


class RegionWatcher(PictureWatcher):
    """Regions of single frames: a detector's boxes, and an image network's grid pooled inside each.

    A network that takes any size reads the detector's images; a graph of one size has a view of its own, and shares its
    pass with other streams at the same frames.
    """

    look: RegionLook

    def prepare(self, networks: Networks) -> None:
        self.backbone = find("detector", DETECTORS, self.look.backbone)
        eye = find("picture network", PICTURES, self.look.eye)
        self.network = networks.get(DETECTORS, self.look.backbone, self.look.weights)
        self.eye, self.grid = networks.get(PICTURES, self.look.eye, self.look.eye_weights), eye.grid
        self.shape = ImageView(eye.pixels, self.look.aspect)
        self.own_view = eye.is_graph
        if self.own_view:
            self.cache.users[self.eye, self.shape] += 1
        self.waiting: deque[tuple[str, Frames]] = deque()  # of one view, until the same frames of the other are here

    def views(self) -> dict[str, Size]:
        return {"": self, IMAGES: self.shape} if self.own_view else {"": self}

    def see(self, frames: Frames, view: str = "") -> Iterator[Moments]:
        if not self.own_view:
            yield self.pooled(frames, self.eye(torch.from_numpy(frames.pictures)))
        elif not self.waiting or self.waiting[0][0] == view:
            self.waiting.append((view, frames))
        else:
            parts = {view: frames, self.waiting[0][0]: self.waiting.popleft()[1]}
            layers = self.cache.layers((self.eye, self.shape), self.eye, parts[IMAGES])
            yield self.pooled(parts[""], layers)

    def pooled(self, frames: Frames, layers: dict[str, Tensor]) -> Moments:
        """The detector's frames and the image network's layers of the same frames -> regions."""
        detector: Any = self.network
        found = detector.detect(torch.from_numpy(frames.pictures), k=self.look.regions)
        if self.grid not in layers:
            raise WatchwordError(f"{self.look.eye} gives no grid to look for regions in: take another eye")
        grid = layers[self.grid].permute(0, 3, 1, 2)  # (F, D, h, w)
        vectors = pool_regions(grid, found.boxes) * found.mask.unsqueeze(2)  # (F, N, D)
        notes = tuple(
            tuple(f"{detector.class_names[kind]} {score:.2f}" for kind, score, real in zip(*row, strict=True) if real)
            for row in zip(found.classes.tolist(), found.scores.tolist(), found.mask.tolist(), strict=True)
        )
        boxes = within(self.seen, found.boxes) * found.mask.unsqueeze(2)
        return Moments(frames.times, {"regions": vectors}, self.backbone, self.seen, 0.0, boxes, found.mask, notes)


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

    def see(self, frames: Frames, view: str = "") -> Iterator[Moments]:
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
