"""What models report of a caption beyond attention: frames that they selected, weights of layers and branches."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from watchword.decoding import Ensemble, StepModel
from watchword.tensors import Streams
from watchword.types import Diagnostics


@runtime_checkable
class HasDiagnostics(Protocol):
    """A model that reports more than attention."""

    def diagnostics(self, streams: Streams, caption: Tensor) -> Diagnostics:
        """Of one video and one caption, (1, 1, T); marks count seconds as the streams do."""


@torch.no_grad()
def diagnose(model: StepModel, streams: Streams, caption: Tensor) -> Diagnostics:
    """The diagnostics of a model, or of all members of an ensemble."""
    members = model.models if isinstance(model, Ensemble) else (model,)
    found = [one.diagnostics(streams, caption) for one in members if isinstance(one, HasDiagnostics)]
    marks = tuple(mark for one in found for mark in one.marks)
    return Diagnostics(marks, tuple(bars for one in found for bars in one.bars))
