"""Receptive fields between the layers of a network, and the kernels that align a finer layer with a coarser one.

Pu et al., Adaptive Feature Abstraction for Translating Video to Text, AAAI 2018, appendix, Tables 4 and 5. Each axis,
time or height or width, is reckoned by itself.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Literal

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
