"""One extractor per stream: how it looks at a film, and what it keeps of what the network answers.

| stream | values | made by |
|---|---|---|
| `appearance` | (F, 1, 1280) | the pooled picture |
| `appearance_token` | (F, 1, 768) | the class token of CLIP's last block |
| `appearance_grid` | (F, 49, 1280) | its 7 x 7 cells; CLIP has 14 x 14 |
| `appearance_layers.1`, `.2`, ... | (F, N, D) | several depths, the earliest first |
| `motion` | (F, 1, 1024) | the pooled window |
| `motion_grid` | (F, 49, 2048) | its 7 x 7 cells, both halves of the window side by side, as STaTS reads Mixed_5c |
| `motion_layers.1`, `.2`, ... | (F, up to 49, D) | several depths, the earliest first, as dualAFR reads them |
| `regions` | (F, 16, 1280) | what the eye sees inside a detector's boxes |
| `flow` | (F, 1, 144) | histograms of flow; (F, 1, 1024) from I3D's flow network |
| `flow_grid` | (F, 16, 9) | their 4 x 4 cells; (F, 49, 2048) from I3D's flow network, as STaTS reads it (+FL) |
| `audio` | (F, 1, 1024) | windows of sound |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from watchword.config import Settings
from watchword.errors import WatchwordError
from watchword.features.looks import FlowLook, PictureLook, RegionLook, SoundLook, WindowLook
from watchword.features.watching import Moments, within
from watchword.types import FloatArray, StreamArrays

CELLS = 7  # a side, at most: finer layers are averaged, which keeps all depths of a film within a few megabytes

Kept = dict[str, StreamArrays]  # by what is added to the stream's name


@dataclass(frozen=True)
class Extractor:
    """A stream: the look that it has unless told otherwise, and what it keeps of some moments."""

    look: Settings
    keep: Callable[[Moments], Kept]


def pooled(moments: Moments) -> Kept:
    values = moments.layers[moments.backbone.pooled]  # (F, D); (F, t, D) of C3D, which has a vector for each 16 frames
    values = values.mean(1) if values.dim() == 3 else values
    return {"": _arrays(values.unsqueeze(1), moments.times, within(moments.seen, torch.tensor([[0.0, 0.0, 1.0, 1.0]])))}


def class_token(moments: Moments) -> Kept:
    if "class_token" not in moments.layers:
        raise WatchwordError("this network has no class token: take appearance, or clip_vit_b16")
    whole = within(moments.seen, torch.tensor([[0.0, 0.0, 1.0, 1.0]]))
    return {"": _arrays(moments.layers["class_token"].unsqueeze(1), moments.times, whole)}


def grid(moments: Moments) -> Kept:
    if moments.backbone.grid not in moments.layers:
        raise WatchwordError("this network gives one vector a picture and no grid: take appearance, or another network")
    values = moments.layers[moments.backbone.grid]  # (F, h, w, D), of a window (F, t, h, w, D)
    if values.dim() == 5:
        values = values.permute(0, 2, 3, 1, 4).flatten(3)  # (F, h, w, t * D)
    return {"": _cells(_at_most(values, moments.cells), moments)}


def image_layers(moments: Moments) -> Kept:
    names = moments.backbone.layers
    if not names:
        raise WatchwordError("this network gives one depth: take appearance_grid, or clip_vit_b16 for its blocks")
    depths = {f".{number}": moments.layers[name] for number, name in enumerate(names, 1)}  # (F, h, w, D)
    return {suffix: _cells(_at_most(values, moments.cells), moments) for suffix, values in depths.items()}


def layers(moments: Moments) -> Kept:
    """Every depth at the moments of the deepest: a window of 16 frames has two, the middles of its halves."""
    names = moments.backbone.layers
    kept: Kept = {}
    halves = moments.layers[names[-1]].shape[1]
    times = moments.times + moments.seconds * ((np.arange(halves) + 0.5) / halves - 0.5)  # (halves,) of one window
    for number, name in enumerate(names, 1):
        values = moments.layers[name]  # (1, t, h, w, D), or (1, t, D) of a fully connected layer
        values = values.view(*values.shape[:2], 1, 1, -1) if values.dim() == 3 else values
        side = min(CELLS, values.shape[2])
        small = functional.adaptive_avg_pool3d(values[0].permute(3, 0, 1, 2), (halves, side, side))  # (D, halves, ...)
        kept[f".{number}"] = _cells(small.permute(1, 2, 3, 0), moments, times)
    return kept


def regions(moments: Moments) -> Kept:
    assert moments.boxes is not None
    assert moments.mask is not None
    mask = moments.mask.numpy()
    values, boxes = moments.layers["regions"].half().numpy(), moments.boxes.numpy()
    things = {"things": "\n".join("; ".join(row) for row in moments.notes)}
    return {"": StreamArrays(values, moments.times, boxes, mask, things)}


EXTRACTORS = {
    "appearance": Extractor(PictureLook(), pooled),
    "appearance_token": Extractor(PictureLook(), class_token),
    "appearance_grid": Extractor(PictureLook(), grid),
    "appearance_layers": Extractor(PictureLook(), image_layers),
    "motion": Extractor(WindowLook(), pooled),
    "motion_grid": Extractor(WindowLook(), grid),
    "motion_layers": Extractor(WindowLook(), layers),
    "regions": Extractor(RegionLook(), regions),
    "flow": Extractor(FlowLook(), pooled),
    "flow_grid": Extractor(FlowLook(), grid),
    "audio": Extractor(SoundLook(), pooled),
}


def joined(parts: Sequence[StreamArrays]) -> StreamArrays:
    """Consecutive parts of a film as one. Boxes that are the same at all moments stay (N, 4)."""
    first = parts[0]
    boxes = first.boxes if first.boxes.ndim == 2 else np.concatenate([part.boxes for part in parts])
    masks = [part.mask for part in parts if part.mask is not None]
    notes = {name: "\n".join(part.provenance[name] for part in parts) for name in first.provenance}
    return StreamArrays(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.times for part in parts]),
        boxes,
        np.concatenate(masks) if masks else None,
        notes,
    )


def _at_most(values: Tensor, cells: int | None) -> Tensor:
    """A grid (F, h, w, D) averaged to at most so many cells a side."""
    if cells is None or cells >= values.shape[1]:
        return values
    return functional.adaptive_avg_pool2d(values.permute(0, 3, 1, 2), cells).permute(0, 2, 3, 1)


def _cells(values: Tensor, moments: Moments, times: FloatArray | None = None) -> StreamArrays:
    """(F, h, w, D) -> a place for every cell, row by row, with its box."""
    height, width = values.shape[1:3]
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    corners = torch.stack([columns, rows, columns + 1, rows + 1], 2).flatten(0, 1)  # (N, 4)
    boxes = within(moments.seen, corners / torch.tensor([width, height] * 2))
    return _arrays(values.flatten(1, 2), moments.times if times is None else times, boxes)


def _arrays(values: Tensor, times: FloatArray, boxes: Tensor) -> StreamArrays:
    """Half precision: it rounds to 0.05 % and halves the disk."""
    return StreamArrays(values.half().numpy(), times, boxes.numpy())
