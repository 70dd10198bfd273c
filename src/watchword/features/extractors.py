"""One extractor per stream: its default spec, and which outputs of the network it keeps.

| stream | values | made by |
|---|---|---|
| `appearance` | (F, 1, 1280) | the pooled picture |
| `appearance_token` | (F, 1, 768) | the class token of CLIP's last block |
| `appearance_grid` | (F, 49, 1280) | its 7 x 7 cells; CLIP has 14 x 14 |
| `appearance_layers.1`, `.2`, ... | (F, N, D) | several depths, the earliest first |
| `motion` | (F, 1, 1024) | the pooled window |
| `motion_grid` | (F, 49, 2048) | its 7 x 7 cells, both halves of the window side by side, as STaTS reads Mixed_5c |
| `motion_layers.1`, `.2`, ... | (F, up to 49, D) | several depths, the earliest first, as dualAFR reads them |
| `regions` | (F, 16, 1280) | features pooled inside a detector's boxes |
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
from watchword.features.samplers import Extracted, within
from watchword.features.specs import AudioSpec, FlowSpec, ImageSpec, RegionSpec, WindowSpec
from watchword.types import FloatArray, StreamArrays

CELLS = 7  # a side, at most: finer layers are averaged, which keeps all depths of a video within a few megabytes

Kept = dict[str, StreamArrays]  # by what is added to the stream's name


@dataclass(frozen=True)
class Extractor:
    """A stream: its default spec, and what it keeps of the network's outputs."""

    spec: Settings
    keep: Callable[[Extracted], Kept]


def pooled(extracted: Extracted) -> Kept:
    name = extracted.vector or extracted.backbone.pooled
    values = extracted.layers[name]  # (F, D); C3D: (F, t, D), a vector for each 16 frames
    times = extracted.layer_times.get(name)
    if values.dim() == 3:
        values = values.mean(1) if times is None else values[0]
    whole = within(extracted.seen, torch.tensor([[0.0, 0.0, 1.0, 1.0]]))
    return {"": _arrays(values.unsqueeze(1), extracted.times if times is None else times, whole)}


def class_token(extracted: Extracted) -> Kept:
    if "class_token" not in extracted.layers:
        raise WatchwordError("this network has no class token: take appearance, or clip_vit_b16")
    whole = within(extracted.seen, torch.tensor([[0.0, 0.0, 1.0, 1.0]]))
    return {"": _arrays(extracted.layers["class_token"].unsqueeze(1), extracted.times, whole)}


def grid(extracted: Extracted) -> Kept:
    if extracted.backbone.grid not in extracted.layers:
        raise WatchwordError("this network gives one vector a picture and no grid: take appearance, or another network")
    values = extracted.layers[extracted.backbone.grid]  # (F, h, w, D), of a window (F, t, h, w, D)
    times = extracted.layer_times.get(extracted.backbone.grid)
    if times is not None:
        return {"": _cells(values[0], extracted, times)}
    if values.dim() == 5:
        values = values.permute(0, 2, 3, 1, 4).flatten(3)  # (F, h, w, t * D)
    return {"": _cells(_at_most(values, extracted.cells), extracted)}


def image_layers(extracted: Extracted) -> Kept:
    names = extracted.backbone.layers
    if not names:
        raise WatchwordError("this network gives one depth: take appearance_grid, or clip_vit_b16 for its blocks")
    depths = {f".{number}": extracted.layers[name] for number, name in enumerate(names, 1)}  # (F, h, w, D)
    return {suffix: _cells(_at_most(values, extracted.cells), extracted) for suffix, values in depths.items()}


def layers(extracted: Extracted) -> Kept:
    """Every depth, at the time steps of the deepest: a window of 16 frames has two, the middles of its halves.

    Or, with `maps = "own"`, at its own time steps, as large as the network has it.
    """
    names = extracted.backbone.layers
    kept: Kept = {}
    halves = extracted.layers[names[-1]].shape[1]
    for number, name in enumerate(names, 1):
        values = extracted.layers[name]  # (1, t, h, w, D), or (1, t, D) of a fully connected layer
        values = values.view(*values.shape[:2], 1, 1, -1) if values.dim() == 3 else values
        if extracted.own_maps:
            maps = values[0]
        else:
            side = min(CELLS, values.shape[2])
            small = functional.adaptive_avg_pool3d(values[0].permute(3, 0, 1, 2), (halves, side, side))
            maps = small.permute(1, 2, 3, 0)  # (halves, side, side, D)
        times = extracted.layer_times.get(name)
        kept[f".{number}"] = _cells(maps, extracted, _middles(extracted, len(maps)) if times is None else times)
    return kept


def _middles(extracted: Extracted, steps: int) -> FloatArray:
    """The times of the middles of equal parts of one window."""
    middles: FloatArray = extracted.times + extracted.seconds * ((np.arange(steps) + 0.5) / steps - 0.5)
    return middles


def regions(extracted: Extracted) -> Kept:
    assert extracted.boxes is not None
    assert extracted.mask is not None
    mask = extracted.mask.numpy()
    values, boxes = extracted.layers["regions"].half().numpy(), extracted.boxes.numpy()
    things = {"things": "\n".join("; ".join(row) for row in extracted.notes)}
    return {"": StreamArrays(values, extracted.times, boxes, mask, things)}


EXTRACTORS = {
    "appearance": Extractor(ImageSpec(), pooled),
    "appearance_token": Extractor(ImageSpec(), class_token),
    "appearance_grid": Extractor(ImageSpec(), grid),
    "appearance_layers": Extractor(ImageSpec(), image_layers),
    "motion": Extractor(WindowSpec(), pooled),
    "motion_grid": Extractor(WindowSpec(), grid),
    "motion_layers": Extractor(WindowSpec(), layers),
    "regions": Extractor(RegionSpec(), regions),
    "flow": Extractor(FlowSpec(), pooled),
    "flow_grid": Extractor(FlowSpec(), grid),
    "audio": Extractor(AudioSpec(), pooled),
}


def joined(parts: Sequence[StreamArrays]) -> StreamArrays:
    """Consecutive parts of a video as one. Boxes that are the same at all time steps stay (N, 4)."""
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


def _cells(values: Tensor, extracted: Extracted, times: FloatArray | None = None) -> StreamArrays:
    """(F, h, w, D) -> a location for every cell, row by row, with its box."""
    height, width = values.shape[1:3]
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    corners = torch.stack([columns, rows, columns + 1, rows + 1], 2).flatten(0, 1)  # (N, 4)
    boxes = within(extracted.seen, corners / torch.tensor([width, height] * 2))
    return _arrays(values.flatten(1, 2), extracted.times if times is None else times, boxes)


def _arrays(values: Tensor, times: FloatArray, boxes: Tensor) -> StreamArrays:
    """Half precision: it rounds to 0.05 % and halves the disk."""
    return StreamArrays(values.half().numpy(), times, boxes.numpy())
