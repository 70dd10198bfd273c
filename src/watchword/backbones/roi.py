"""Vectors of regions out of a grid of features: RoIAlign (He et al. 2017, arXiv:1703.06870), averaged over the box."""

import torch
from torch import Tensor


def pool_regions(grid: Tensor, boxes: Tensor, samples: int = 8) -> Tensor:
    """Grid (F, C, h, w) and boxes (F, k, 4) x0 y0 x1 y1 in 0..1 -> the mean of the grid inside each box, (F, k, C).

    The mean of bilinear samples at samples x samples evenly spread points is a weighted mean of the cells, and the
    weights are a product of one for the row and one for the column: so all boxes of a frame are one matrix product.
    """
    height, width = grid.shape[2:]
    columns = _weights(boxes[..., 0], boxes[..., 2], width, samples)  # (F, k, w)
    rows = _weights(boxes[..., 1], boxes[..., 3], height, samples)  # (F, k, h)
    weights = (rows.unsqueeze(3) * columns.unsqueeze(2)).flatten(2)  # (F, k, h * w)
    return weights.to(grid) @ grid.flatten(2).transpose(1, 2)


def _weights(low: Tensor, high: Tensor, cells: int, samples: int) -> Tensor:
    """How much each cell along one axis counts for each box: (F, k) twice -> (F, k, cells), sums to one."""
    steps = (torch.arange(samples, device=low.device) + 0.5) / samples
    points = low.unsqueeze(2) + (high - low).unsqueeze(2) * steps  # (F, k, samples) 0..1
    points = (points * cells - 0.5).clamp(0, cells - 1)  # cell i has its value at i; beyond the last middle it stays
    distance = (points.unsqueeze(3) - torch.arange(cells, device=low.device)).abs()  # (F, k, samples, cells)
    return (1 - distance).clamp(min=0).mean(2)
