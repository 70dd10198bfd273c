"""Dropout whose masks several captions of a video may share."""

from torch import Tensor, nn


class GroupDropout(nn.Dropout):
    """Dropout on (B, S, H). The S captions are `groups` equal parts, each with the same masks: 1 is plain dropout.

    Two passes over the same captions then differ by what they read, not by what dropout took away.
    """

    groups = 1

    def forward(self, values: Tensor) -> Tensor:
        if self.groups == 1 or not self.training:
            return super().forward(values)
        batch, captions, width = values.shape
        mask: Tensor = super().forward(values.new_ones(batch, captions // self.groups, width))
        return values * mask.repeat(1, self.groups, 1)
