"""Features to the width that a network works with."""

from torch import Tensor, nn


class Projection(nn.Linear):
    """A linear map, and where it is asked for a layer norm of what comes out, before a ReLU or a tanh cuts it off.

    Features are large and never negative, so a step of Adam moves an output by the learning rate times their sum, and
    for all films in the same direction: by 1.3 for VGG16's on MSVD, where outputs begin with a spread of 0.8. Without
    the norm more than half of 512 units ended below 0 for every film, never to be heard of again (docs/results.md).
    """

    def __init__(self, width: int, size: int, normalise: bool) -> None:
        super().__init__(width, size)
        self.norm = nn.LayerNorm(size) if normalise else nn.Identity()

    def forward(self, features: Tensor) -> Tensor:
        projected: Tensor = self.norm(super().forward(features))
        return projected
