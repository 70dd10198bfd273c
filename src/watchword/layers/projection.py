"""Features to the width that a network works with."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Projection(nn.Linear):
    """A linear map, and where it is asked for a layer norm of what comes out, before a ReLU or a tanh cuts it off.

    Features are large and never negative, so a step of Adam moves an output by the learning rate times their sum, and
    for all videos in the same direction: by 1.3 for VGG16's on MSVD, where outputs begin with a spread of 0.8. Without
    the norm more than half of 512 units ended below 0 for every video, and stayed dead (docs/results.md).
    """

    def __init__(self, width: int, size: int, normalise: bool) -> None:
        super().__init__(width, size)
        self.norm = nn.LayerNorm(size) if normalise else nn.Identity()

    def forward(self, features: Tensor) -> Tensor:
        projected: Tensor = self.norm(super().forward(features))
        return projected


class WordProjection(nn.Linear):
    """Outputs to logits. Some words, given by their rows, have probability 0."""

    never_said: Tensor

    def __init__(self, size: int, num_words: int, never_said: Sequence[int]) -> None:
        super().__init__(size, num_words)
        forbidden = torch.zeros(num_words)
        forbidden[list(never_said)] = float("-inf")
        self.register_buffer("never_said", forbidden, persistent=False)

    @property
    def full_bias(self) -> Tensor:
        return self.bias + self.never_said

    def forward(self, outputs: Tensor) -> Tensor:
        return nn.functional.linear(outputs, self.weight, self.full_bias)


def accept_old_names(module: nn.Module, renamed: Mapping[str, str]) -> None:
    """Lets a module load checkpoints in which some of its children or parameters had other names: old -> new."""

    def rename(module: nn.Module, tensors: dict[str, Any], prefix: str, *_: Any) -> None:
        for name in list(tensors):
            old, dot, rest = name.removeprefix(prefix).partition(".")
            if name.startswith(prefix) and old in renamed:
                tensors[f"{prefix}{renamed[old]}{dot}{rest}"] = tensors.pop(name)

    module.register_load_state_dict_pre_hook(rename)  # type: ignore[no-untyped-call]
