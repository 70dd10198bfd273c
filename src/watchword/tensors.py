"""Data inside the network, and the letters of the axes, which are the same in every file.

| letter | meaning |
|---|---|
| B | videos in a batch |
| S | captions side by side for one video: its captions when training, beams when decoding, rollouts in RL |
| T | words in a caption |
| F | time steps of a stream (frames, clips, audio windows) |
| N | locations within one time step (grid cells, detected regions; 1 for a pooled stream) |
| D, H, E, A, V | feature, hidden, embedding, attention width; vocabulary |

Videos and captions are two axes everywhere: memory has B rows, state has (B, S) rows, and nothing that belongs to a
video is ever copied per caption.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

PAD, BOS, EOS, UNK = 0, 1, 2, 3  # the first four rows of every vocabulary
CATEGORY = "category"  # the stream that `data/` makes of the annotation: one time step, one location, one-hot


@dataclass(frozen=True)
class Stream:
    """One modality of B videos: when x where x what."""

    values: Tensor  # (B, F, N, D)
    mask: Tensor  # (B, F, N) bool: a real location; all False for a video that lacks the stream
    times: Tensor  # (B, F) seconds
    boxes: Tensor  # (B, F, N, 4) x0 y0 x1 y1, 0..1 of the picture

    def to(self, device: torch.device | str) -> "Stream":
        values, mask, times, boxes = (
            tensor.to(device, non_blocking=True) for tensor in (self.values, self.mask, self.times, self.boxes)
        )
        return Stream(values, mask, times, boxes)


Streams = Mapping[str, Stream]
Memory = dict[str, Tensor]  # what encode keeps of the videos: tensors that begin with (B,)
State = dict[str, Tensor]  # what a step carries to the next word: tensors that begin with (B, S)


@dataclass(frozen=True)
class Step:
    """What a model says after one word."""

    outputs: Tensor  # (B, S, H) what the vocabulary projection reads
    state: State
    attention: dict[str, Tensor] = field(default_factory=dict)  # stream -> (B, S, F, N)


@dataclass(frozen=True)
class Batch:
    """B videos and S captions of each. Captions begin with BOS, end with EOS, are padded with PAD."""

    videos: tuple[str, ...]
    streams: Streams
    captions: Tensor  # (B, S, T)
    rows: Tensor | None = None  # (B, S) which of its video's captions each caption is; -1: none

    @property
    def num_words(self) -> int:
        """Words that are predicted: everything after BOS, EOS among them."""
        return int((self.captions[:, :, 1:] != PAD).sum())

    def to(self, device: torch.device | str) -> "Batch":
        streams = {name: stream.to(device) for name, stream in self.streams.items()}
        rows = None if self.rows is None else self.rows.to(device, non_blocking=True)
        return Batch(self.videos, streams, self.captions.to(device, non_blocking=True), rows)


def at_least_float32(tensor: Tensor) -> Tensor:
    """Half precision widened: softmax and sums of losses need more than the 8 bits of bfloat16."""
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def reorder(state: State, index: Tensor) -> State:
    """The captions of every video in a new order, (B, S'): beams may split, end and change order."""
    rows = torch.arange(index.shape[0], device=index.device).unsqueeze(1)
    return {name: tensor[rows, index] for name, tensor in state.items()}
