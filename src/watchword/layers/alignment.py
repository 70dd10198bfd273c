"""Bringing the feature maps of a network's lower layers to the grid and the width of its deepest one.

Pu et al., Adaptive Feature Abstraction for Translating Video to Text, AAAI 2018. Maps are (B, D, T, h, w): features of
T time steps, h rows, w columns; `real` is (B, 1, T, h, w), 1 at real locations. The results are maps of the
deepest layer's grid, (B, T', h', w', D'), computed once a video.

First come receptive fields and the kernels that align a finer layer with a coarser one (appendix, Tables 4 and 5). Each
axis, time or height or width, is computed by itself.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Kernel = Literal["appendix", "receptive"]


@dataclass(frozen=True)
class Field:
    """The field of location i (from 1) covers locations stride * i + first to stride * i + last of a finer layer."""

    stride: int
    first: int
    last: int

    def over(self, finer: "Field") -> "Field":
        """The composition of both fields: this one over that of each location in it."""
        first, last = (finer.stride * edge for edge in (self.first, self.last))
        return Field(self.stride * finer.stride, first + finer.first, last + finer.last)

    @property
    def width(self) -> int:
        return self.last - self.first + 1


def convolution(kernel: int) -> Field:
    """Padded so that there are as many locations after it as before."""
    return Field(1, -(kernel // 2), kernel // 2)


def pooling(ratio: int) -> Field:
    return Field(ratio, 1 - ratio, 0)


def seen_through(*fields: Field) -> Field:
    """The coarsest layer's field first."""
    return reduce(Field.over, fields)


def ratio_of(fine: int, coarse: int) -> int:
    """By how much a layer with `fine` locations is pooled to have `coarse`: networks halve, so a power of two.

    C3D's 28 and 4 make 8, not 7: its last pooling pads 7 to 8.
    """
    ratio = 1
    while -(-fine // ratio) > coarse:
        ratio *= 2
    return ratio


def reach_of(ratio: int) -> int:
    """How far the field of a coarse location extends on each side of the `ratio` fine locations under it.

    A convolution of 3 before each halving adds 1, then 2, 4, ...: ratio - 1 in all. Nothing is halved between layers of
    the same size (ratio 1), such as the blocks of a vision transformer: each location stands for itself.
    """
    return ratio - 1


def kernel_of(ratio: int, rule: Kernel) -> int:
    """The width of the convolution that stands before the pooling.

    `appendix`: 3, 5, 7 for 2, 4, 8, the kernels that the text names; one more to each side with every halving.
    `receptive`: 3, 7, 15, which give exactly the receptive fields of Tables 4 and 5.
    Both are 1 for layers of the same size.
    """
    return 2 * ratio.bit_length() - 1 if rule == "appendix" else 2 * reach_of(ratio) + 1


Triple = tuple[int, int, int]  # of time steps, rows, columns


class ConvolutionAlignment(nn.Module):
    """Eq. 3: filters for the deepest layer's features, ReLU, max pooling over the locations under each of its own."""

    def __init__(self, width: int, size: int, ratios: Triple, rule: Kernel) -> None:
        super().__init__()
        time, rows, columns = (kernel_of(ratio, rule) for ratio in ratios)
        self.filters = nn.Conv3d(width, size, (time, rows, columns), padding=(time // 2, rows // 2, columns // 2))
        self.ratios = ratios

    def forward(self, maps: Tensor, real: Tensor) -> Tensor:
        if max(self.ratios) == 1:  # kernels of 1: a product for each location, without moving the features
            weight = self.filters.weight.flatten(1)
            found = functional.linear((maps * real).movedim(1, -1), weight, self.filters.bias).relu()
            return found * real.movedim(1, -1)
        found = self.filters(maps * real).relu() * real  # after ReLU nothing is less than 0: padding never wins
        if max(self.ratios) > 1:
            found = functional.max_pool3d(found, self.ratios, ceil_mode=True)
        return found.movedim(1, -1)


class PoolingAlignment(nn.Module):
    """Eq. 17, 18: the maximum or the mean over all that a location of the deepest layer sees, then a perceptron."""

    def __init__(self, width: int, size: int, ratios: Triple, largest: bool) -> None:
        super().__init__()
        self.ratios, self.largest = ratios, largest
        time, rows, columns = (reach_of(ratio) for ratio in ratios)
        self.window = (ratios[0] + 2 * time, ratios[1] + 2 * rows, ratios[2] + 2 * columns)
        self.border = (columns, columns, rows, rows, time, time)
        self.embed = perceptron(width, size)

    def forward(self, maps: Tensor, real: Tensor) -> Tensor:
        nothing = float("-inf") if self.largest else 0.0
        maps = functional.pad(maps.masked_fill(real == 0, nothing), self.border, value=nothing)
        if self.largest:
            pooled = functional.max_pool3d(maps, self.window, self.ratios, ceil_mode=True)
            pooled = pooled.masked_fill(pooled.isneginf(), 0)
        else:
            both = torch.cat([maps, functional.pad(real, self.border)], 1)
            both = functional.avg_pool3d(both, self.window, self.ratios, ceil_mode=True, divisor_override=1)
            pooled = both[:, :-1] / both[:, -1:].clamp(min=1)
        return self.embed(pooled.movedim(1, -1))


class HypercolumnAlignment(nn.Module):
    """What a layer has at the middle of each location of the deepest one, between its own locations, then a perceptron.

    Hariharan et al., Hypercolumns for Object Segmentation and Fine-grained Localization, CVPR 2015. The middle is
    that of the block of Eq. 3: 3.5, 11.5, 19.5 and 25.5 for C3D's 28 columns, of which the last block has four.
    """

    def __init__(self, width: int, size: int, ratios: Triple) -> None:
        super().__init__()
        self.ratios = ratios
        self.embed = perceptron(width, size)

    def forward(self, maps: Tensor, real: Tensor) -> Tensor:
        both = torch.cat([maps * real, real], 1)
        for axis, ratio in enumerate(self.ratios, 2):
            middles = block_middles(both.shape[axis], ratio).to(both)
            both = torch.movedim(torch.tensordot(both, middles, dims=([axis], [1])), -1, axis)
        values, weight = both[:, :-1], both[:, -1:]
        return self.embed((values / weight.clamp(min=1e-6)).movedim(1, -1))


def block_middles(length: int, ratio: int) -> Tensor:
    """What reads a row of numbers at the middle of each of its blocks, linearly between them: (blocks, length)."""
    starts = torch.arange(0, length, ratio)
    middles = (starts + (starts + ratio).clamp(max=length) - 1) / 2  # (blocks,)
    distance = (middles.unsqueeze(1) - torch.arange(length)).abs()
    return (1 - distance).clamp(min=0)


class StackingAlignment(nn.Module):
    """The row "MLP" of Table 1: all locations under one of the deepest layer, concatenated, into one perceptron."""

    def __init__(self, width: int, size: int, ratios: Triple) -> None:
        super().__init__()
        self.ratios = ratios
        self.embed = perceptron(width * ratios[0] * ratios[1] * ratios[2], size)

    def forward(self, maps: Tensor, real: Tensor) -> Tensor:
        missing = [-length % ratio for length, ratio in zip(maps.shape[2:], self.ratios, strict=True)]
        maps = functional.pad(maps * real, (0, missing[2], 0, missing[1], 0, missing[0]))
        (time, row, column), (time_steps, rows, columns) = self.ratios, maps.shape[2:]
        blocks = (time_steps // time, time, rows // row, row, columns // column, column)
        maps = maps.reshape(*maps.shape[:2], *blocks)  # (B, D, T', r, h', r, w', r)
        return self.embed(maps.permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4))


class LocationAlignment(nn.Module):
    """The deepest layer, which needs no alignment: each location is embedded by itself, or left as it is."""

    def __init__(self, embed: nn.Module) -> None:
        super().__init__()
        self.embed = embed

    def forward(self, maps: Tensor, real: Tensor) -> Tensor:
        return self.embed((maps * real).movedim(1, -1))


def perceptron(width: int, size: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, size), nn.ReLU(), nn.Linear(size, size))
