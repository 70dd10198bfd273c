"""Samplers: which frames of a video a stream needs, and what its network computes from them.

A sampler is the plan *and* the size of its view: the decoder asks it for times and layout, and so gives it the timeline
and the shape of the video without a second scan of the packets.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from watchword.backbones.c3d import REACH, STRIDES
from watchword.backbones.flow import pixel_flow
from watchword.backbones.regions import pool_regions
from watchword.errors import WatchwordError
from watchword.features.networks import (
    DETECTORS,
    FLOW_BACKBONES,
    IMAGE_BACKBONES,
    WINDOW_BACKBONES,
    Backbone,
    Networks,
    find,
)
from watchword.features.specs import FlowSpec, ImageSpec, RegionSpec, StreamSpec, WindowSpec
from watchword.types import FloatArray, Frames, evenly
from watchword.video import CentreCrop, Squash, Timeline
from watchword.video.transforms import Layout, Size

WHOLE = (0.0, 0.0, 1.0, 1.0)
PIECE, OVERLAP = 64, 8  # frames of a whole video that go through C3D at once, and those that two windows share
MARGIN = -(-REACH // 16) * 16  # frames on each side of a piece: whole steps of pool5
FC_WIDTH = 4096
IMAGES = "images"  # the view of a region stream's image network, where it is not the detector's


@dataclass(frozen=True)
class Extracted:
    """The network's outputs for some consecutive time steps of a video."""

    times: FloatArray  # (F,) seconds
    layers: dict[str, Tensor]  # by the network's own names, each (F, ...), channels last
    backbone: Backbone  # says which of them is what
    seen: tuple[float, float, float, float] = WHOLE  # the part of the picture that the network saw: x0 y0 x1 y1
    seconds: float = 0.0  # that one time step lasts, where it is a window of frames
    boxes: Tensor | None = None  # (F, N, 4) where a detector looked
    mask: Tensor | None = None  # (F, N)
    notes: tuple[tuple[str, ...], ...] = ()  # (F, up to N) what each box holds
    cells: int | None = None  # a side of a grid to be stored, at most
    vector: str = ""  # the layer that stands for the whole; "": the backbone's
    own_maps: bool = False  # layers of several depths are kept as large as they are
    layer_times: dict[str, FloatArray] = field(default_factory=dict)  # of layers (1, t, ...): seconds of their t steps


class Sampler(Protocol):
    """Views of one video, and what is made of their frames. All views have frames of the same times."""

    def times(self, timeline: Timeline) -> FloatArray: ...
    def layout(self, width: int, height: int) -> Layout: ...
    def views(self) -> dict[str, Size]: ...
    def see(self, frames: Frames, view: str = "") -> Iterator[Extracted]: ...


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
        positions = [(key, time) for time in frames.times.tolist()]
        missing = [row for row, position in enumerate(positions) if position not in self.frames]
        if missing:
            made = network(torch.from_numpy(frames.pictures[missing]))
            for number, row in enumerate(missing):
                self.frames[positions[row]] = {name: layer[number] for name, layer in made.items()}
        rows = [self.frames[position] for position in positions]
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


class ImageSampler:
    """Single frames through a picture network."""

    def __init__(self, spec: StreamSpec, networks: Networks, most: int | None, cache: ImageCache) -> None:
        self.spec = spec
        self.most = most  # of more time steps, only so many, evenly chosen: what a captioner reads of them
        self.seen = WHOLE
        self.cache = cache
        self.prepare(networks)

    def prepare(self, networks: Networks) -> None:
        self.backbone = find("picture network", IMAGE_BACKBONES, self.spec.backbone)
        self.network = networks.get(IMAGE_BACKBONES, self.spec.backbone, self.spec.weights)
        self.shape = ImageView(self.spec.pixels or self.backbone.pixels, self.spec.aspect)
        self.cache.users[self.network, self.shape] += 1

    def views(self) -> dict[str, Size]:
        return {"": self}

    def times(self, timeline: Timeline) -> FloatArray:
        return self.instants(timeline)

    def instants(self, timeline: Timeline) -> FloatArray:
        times = self.spec.instants(timeline)
        return times[evenly(len(times), self.most)]

    def layout(self, width: int, height: int) -> Layout:
        layout = ImageView(self.spec.pixels or self.backbone.pixels, self.spec.aspect).layout(width, height)
        across, down = layout.crop_width / layout.width, layout.crop_height / layout.height
        self.seen = ((1 - across) / 2, (1 - down) / 2, (1 + across) / 2, (1 + down) / 2)
        return layout

    def see(self, frames: Frames, view: str = "") -> Iterator[Extracted]:
        """A frame that is on screen at several of the time steps goes through the network once."""
        _, first, rows = np.unique(frames.times, return_index=True, return_inverse=True)
        once = Frames(frames.pictures[first], frames.times[first])
        layers = self.cache.layers((self.network, self.shape), self.network, once)
        if len(first) < len(rows):
            layers = {name: layer[torch.from_numpy(rows)] for name, layer in layers.items()}
        cells = self.spec.cells if isinstance(self.spec, ImageSpec) else None
        yield Extracted(frames.times, layers, self.backbone, self.seen, cells=cells)


class RegionSampler(ImageSampler):
    """Regions of single frames: a detector's boxes, and an image network's grid pooled inside each.

    A network that takes any size reads the detector's images; a graph of one size has a view of its own, and shares its
    pass with other streams at the same frames.
    """

    spec: RegionSpec

    def prepare(self, networks: Networks) -> None:
        self.backbone = find("detector", DETECTORS, self.spec.backbone)
        region = find("picture network", IMAGE_BACKBONES, self.spec.region_backbone)
        self.network = networks.get(DETECTORS, self.spec.backbone, self.spec.weights)
        self.region_network = networks.get(IMAGE_BACKBONES, self.spec.region_backbone, self.spec.region_weights)
        self.grid = region.grid
        self.shape = ImageView(region.pixels, self.spec.aspect)
        self.own_view = region.is_graph
        if self.own_view:
            self.cache.users[self.region_network, self.shape] += 1
        self.waiting: deque[tuple[str, Frames]] = deque()  # of one view, until the same frames of the other are here

    def views(self) -> dict[str, Size]:
        return {"": self, IMAGES: self.shape} if self.own_view else {"": self}

    def see(self, frames: Frames, view: str = "") -> Iterator[Extracted]:
        if not self.own_view:
            yield self.pooled(frames, self.region_network(torch.from_numpy(frames.pictures)))
        elif not self.waiting or self.waiting[0][0] == view:
            self.waiting.append((view, frames))
        else:
            parts = {view: frames, self.waiting[0][0]: self.waiting.popleft()[1]}
            layers = self.cache.layers((self.region_network, self.shape), self.region_network, parts[IMAGES])
            yield self.pooled(parts[""], layers)

    def pooled(self, frames: Frames, layers: dict[str, Tensor]) -> Extracted:
        """The detector's frames and the image network's layers of the same frames -> regions."""
        detector: Any = self.network
        found = detector.detect(torch.from_numpy(frames.pictures), k=self.spec.regions)
        if self.grid not in layers:
            raise WatchwordError(f"{self.spec.region_backbone} has no grid to pool regions from: take another network")
        grid = layers[self.grid].permute(0, 3, 1, 2)  # (F, D, h, w)
        vectors = pool_regions(grid, found.boxes) * found.mask.unsqueeze(2)  # (F, N, D)
        notes = tuple(
            tuple(f"{detector.class_names[kind]} {score:.2f}" for kind, score, real in zip(*row, strict=True) if real)
            for row in zip(found.classes.tolist(), found.scores.tolist(), found.mask.tolist(), strict=True)
        )
        boxes = within(self.seen, found.boxes) * found.mask.unsqueeze(2)
        return Extracted(frames.times, {"regions": vectors}, self.backbone, self.seen, 0.0, boxes, found.mask, notes)


class WindowSampler(ImageSampler):
    """Windows of frames through a motion network, one window at a time.

    Windows may overlap; each frame is decoded and converted once. Beyond the ends of the video its first and last frame
    are repeated, so that the middle of a window is always the time step: the presentation time of the frame on screen
    then, as in a stream of single frames with the same sampling.
    """

    spec: WindowSpec

    def prepare(self, networks: Networks) -> None:
        self.backbone = WINDOW_BACKBONES[self.spec.backbone]
        self.network = networks.get(WINDOW_BACKBONES, self.spec.backbone, self.spec.weights, self.spec.precision)

    def times(self, timeline: Timeline) -> FloatArray:
        centres = self.instants(timeline)  # (windows,)
        steps = (np.arange(self.spec.frames) - (self.spec.frames - 1) / 2) / self.spec.frame_rate
        shown = on_screen(timeline, (centres[:, None] + steps).ravel())  # numbers of frames
        wanted, positions = np.unique(shown, return_inverse=True)
        self.windows = positions.reshape(len(centres), -1)  # (windows, frames) locations among the wanted frames
        self.centres = timeline.times[on_screen(timeline, centres)]
        self.next_window, self.next_frame = 0, 0
        self.held: dict[int, Any] = {}  # pictures by location, those that a coming window needs
        return timeline.times[wanted]

    def see(self, frames: Frames, view: str = "") -> Iterator[Extracted]:
        for picture in frames.pictures:
            self.held[self.next_frame] = picture
            self.next_frame += 1
        while self.next_window < len(self.windows) and self.windows[self.next_window, -1] < self.next_frame:
            window = self.windows[self.next_window]
            clip = torch.from_numpy(np.stack([self.held[index] for index in window.tolist()]))  # (frames, H, W, 3)
            time = self.centres[self.next_window : self.next_window + 1]
            yield self.extracted(time, self.judge(clip), self.spec.frames / self.spec.frame_rate)
            self.next_window += 1
            begin = self.windows[self.next_window, 0] if self.next_window < len(self.windows) else self.next_frame
            for position in [position for position in self.held if position < begin]:
                del self.held[position]

    def judge(self, clip: Tensor) -> dict[str, Tensor]:
        """Layers of one window, each (1, ...)."""
        layers: dict[str, Tensor] = self.network(self.without_mean(clip).unsqueeze(0))
        return layers

    def without_mean(self, clip: Tensor) -> Tensor:
        return clip if self.spec.mean is None else clip.float() - torch.tensor(self.spec.mean)

    def extracted(
        self,
        times: FloatArray,
        layers: dict[str, Tensor],
        seconds: float = 0.0,
        layer_times: dict[str, FloatArray] | None = None,
    ) -> Extracted:
        return Extracted(
            times,
            layers,
            self.backbone,
            self.seen,
            seconds,
            vector=self.spec.vector or "",
            own_maps=self.spec.maps == "own" or self.spec.reads_all,
            layer_times=layer_times or {},
        )


class VideoSampler(WindowSampler):
    """A whole video as one clip through C3D; the fully connected layers read windows of 16 frames that overlap by 8.

    Maps are computed piece by piece, each with as many frames on both sides as they depend on: they are those of the
    whole video at once, in bounded memory. Windows begin every 8 frames until the last frame is read; beyond the end
    the last frame is repeated.
    """

    def times(self, timeline: Timeline) -> FloatArray:
        begin, rate = float(timeline.times[0]), self.spec.frame_rate
        count = max(1, ceil((timeline.end - begin) * rate - 1e-6))
        self.seconds = begin + np.arange(count) / rate  # of the clip's frames
        wanted, self.rows = np.unique(on_screen(timeline, self.seconds), return_inverse=True)
        self.next_piece, self.next_frame = 0, 0
        self.held = {}
        return timeline.times[wanted]

    def see(self, frames: Frames, view: str = "") -> Iterator[Extracted]:
        for picture in frames.pictures:
            self.held[self.next_frame] = picture
            self.next_frame += 1
        count = len(self.rows)
        while self.next_piece < count:
            start, stop = self.next_piece, min(self.next_piece + PIECE, count)
            low, high = max(0, start - MARGIN), min(count, stop + MARGIN)
            if self.rows[high - 1] >= self.next_frame:
                return
            clip = self.clip(np.arange(low, high))
            yield self.piece(clip, low, start, stop)
            self.next_piece = stop
            needed = self.rows[max(0, stop - MARGIN)] if stop < count else self.next_frame
            for position in [position for position in self.held if position < needed]:
                del self.held[position]

    def clip(self, numbers: Any) -> Tensor:
        """Frames by their numbers in the clip; beyond its end the last one."""
        rows = self.rows[np.minimum(numbers, len(self.rows) - 1)]
        return self.without_mean(torch.from_numpy(np.stack([self.held[row] for row in rows.tolist()])))

    def piece(self, clip: Tensor, low: int, start: int, stop: int) -> Extracted:
        """Layers of the frames from `start` to `stop`, of a clip that begins at `low`."""
        layers: dict[str, Tensor] = self.network(clip.unsqueeze(0), fully_connected=False)
        times = {}
        for name, stride in STRIDES.items():
            first, last = (start - low) // stride, -(-(stop - low) // stride)
            layers[name] = layers[name][:, first:last]
            begins = range(start, stop, stride)
            times[name] = np.array([self.seconds[begin : min(begin + stride, stop)].mean() for begin in begins])
        windows = [begin for begin in range(start, stop, OVERLAP) if begin == 0 or begin + OVERLAP < len(self.rows)]
        found = [self.network(self.clip(np.arange(begin, begin + 16)).unsqueeze(0)) for begin in windows]
        middles = np.array([self.seconds[begin : begin + 16].mean() for begin in windows])
        for name in ("fc6", "fc7"):
            layers[name] = torch.cat([one[name] for one in found], 1) if found else torch.zeros(1, 0, FC_WIDTH)
            times[name] = middles
        return self.extracted(self.seconds[start:stop], layers, layer_times=times)


def window_sampler(spec: Any, networks: Networks, most: int | None, cache: ImageCache) -> WindowSampler:
    return (VideoSampler if spec.reads_all else WindowSampler)(spec, networks, most, cache)


class FlowSampler(WindowSampler):
    """Windows of optical flow: through I3D's flow network, or described by hand."""

    spec: FlowSpec

    def prepare(self, networks: Networks) -> None:
        self.backbone = FLOW_BACKBONES[self.spec.backbone]
        self.network = networks.get(FLOW_BACKBONES, self.spec.backbone, self.spec.weights, self.spec.precision)

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
    motion everywhere from much in one location. Speeds are in hundredths of the picture's width.
    """
    across, down = motion.mul(100 / motion.shape[3]).unbind(1)  # (steps, H, W)
    speed = torch.hypot(across, down)
    turn = torch.atan2(down, across) / (2 * torch.pi) * DIRECTIONS % DIRECTIONS
    ways = torch.arange(DIRECTIONS).view(-1, 1, 1, 1)
    distance = (turn - ways).abs()
    share = (1 - torch.minimum(distance, DIRECTIONS - distance)).clamp(min=0)  # (8, steps, H, W)
    maps = torch.cat([(share * speed).mean(1), speed.square().mean(0, keepdim=True)])  # (9, H, W)
    return torch.nn.functional.adaptive_avg_pool2d(maps, CELLS).permute(1, 2, 0)


SAMPLERS: dict[type[StreamSpec], Callable[[Any, Networks, int | None, ImageCache], ImageSampler]] = {
    ImageSpec: ImageSampler,
    RegionSpec: RegionSampler,
    WindowSpec: window_sampler,
    FlowSpec: FlowSampler,
}


def on_screen(timeline: Timeline, seconds: FloatArray) -> Any:
    """The number of the frame that is shown at each time; before the video the first, after it the last."""
    return (np.searchsorted(timeline.times, seconds + 1e-6, side="right") - 1).clip(0)


def within(seen: tuple[float, float, float, float], boxes: Tensor) -> Tensor:
    """Boxes in 0..1 of what the network saw -> 0..1 of the whole picture."""
    x0, y0, x1, y1 = seen
    return boxes * boxes.new_tensor([x1 - x0, y1 - y0] * 2) + boxes.new_tensor([x0, y0] * 2)
