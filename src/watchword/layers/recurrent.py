"""Recurrent cells for states with two leading axes, (B, S, ...), recurrent encoders of the frames of a video, and
dropout whose masks several captions may share.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence


def remember_at_first(lstm: nn.LSTM) -> None:
    """Opens the forget gates of a fresh LSTM (their two biases add up to 2).

    torch leaves them half closed, so what was seen 20 time steps ago has faded a million times before the first word.
    """
    size = lstm.hidden_size
    for name, parameter in lstm.named_parameters():
        if name.startswith("bias"):
            with torch.no_grad():
                parameter[size : 2 * size] = 1.0


class LSTMCell(nn.Module):
    """One LSTM step. Input and state stand side by side, so a step is one matrix product."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.gates = nn.Linear(input_size + hidden_size, 4 * hidden_size)
        bound = hidden_size**-0.5
        nn.init.uniform_(self.gates.weight, -bound, bound)
        nn.init.zeros_(self.gates.bias)
        with torch.no_grad():
            self.gates.bias[hidden_size : 2 * hidden_size] = 1.0  # forget gate: remember at first

    def forward(self, inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        return next_state(self.gates(torch.cat([inputs, hidden], -1)), cell)

    def split(self, known: Tensor) -> tuple[Tensor, Tensor]:
        """Of inputs whose first part is known at all time steps, known (..., E): its share of the gates, (..., 4 H),
        and the weights of the other inputs and the state. A product with these and `next_state` complete a step."""
        first, rest = self.gates.weight.tensor_split([known.shape[-1]], 1)
        if torch.is_autocast_enabled(known.device.type):  # once, not at every step
            rest = rest.to(torch.get_autocast_dtype(known.device.type))
        return nn.functional.linear(known, first, self.gates.bias), rest


def next_state(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden state and cell of an LSTM after a step: gates (..., 4 H), cell (..., H)."""
    into, forget, candidate, out = gates.chunk(4, -1)
    cell = forget.sigmoid() * cell + into.sigmoid() * candidate.tanh()
    return out.sigmoid() * cell.tanh(), cell


# --- encoders: from a key frame outwards, or from both ends ----------------------------------------------------------


class KeyFrameGRU(nn.Module):
    """KBiGRU: one GRU reads from the key frame back to the first frame, one from it on to the last.

    Every video has a key frame of its own: frames are gathered in the order of reading, and each half of all videos is
    one packed batch. Together they read F + 1 frames a video; a plain bidirectional GRU reads 2 F.
    """

    def __init__(self, input_size: int, hidden_size: int, normalise: bool = False) -> None:
        super().__init__()
        self.to_first = nn.GRU(input_size, hidden_size, batch_first=True)
        self.to_last = nn.GRU(input_size, hidden_size, batch_first=True)
        self.combine = linear(2 * hidden_size, hidden_size, normalise)

    def forward(self, frames: Tensor, lengths: Tensor, key: Tensor) -> Tensor:
        """frames (B, F, D), of which the first lengths (B,) are real, key frames (B,) -> (B, H)."""
        before = _read(self.to_first, frames, key, -1, key + 1)  # key ... 0
        after = _read(self.to_last, frames, key, 1, lengths - key)  # key ... length - 1
        return self.combine(torch.cat([before, after], -1)).tanh()


class BidirectionalGRU(KeyFrameGRU):
    """The plain bidirectional GRU, what KBiGRU is compared with: one GRU reads from the first frame to the last, one
    from the last to the first. The key frame is ignored."""

    def forward(self, frames: Tensor, lengths: Tensor, key: Tensor) -> Tensor:
        """frames (B, F, D), of which the first lengths (B,) are real -> (B, H)."""
        backward = _read(self.to_first, frames, lengths - 1, -1, lengths)
        forward = _read(self.to_last, frames, torch.zeros_like(lengths), 1, lengths)
        return self.combine(torch.cat([backward, forward], -1)).tanh()


def linear(input_size: int, output_size: int, normalise: bool) -> nn.Module:
    """A linear map on its way to a tanh; normalised, it cannot drive the tanh to where nothing is learned any more."""
    plain = nn.Linear(input_size, output_size)
    return nn.Sequential(plain, nn.LayerNorm(output_size)) if normalise else plain


def _read(gru: nn.GRU, frames: Tensor, start: Tensor, direction: int, count: Tensor) -> Tensor:
    """The last state after `count` frames from `start` on, forwards (1) or backwards (-1), first state 0: (B, H)."""
    counts = count.cpu()  # packing wants it there
    steps = torch.arange(int(counts.max()), device=frames.device)
    time_steps = (start.unsqueeze(1) + direction * steps).clamp(0, frames.shape[1] - 1)  # (B, steps)
    rows = torch.arange(len(frames), device=frames.device).unsqueeze(1)
    packed = pack_padded_sequence(frames[rows, time_steps], counts, batch_first=True, enforce_sorted=False)
    return gru(packed)[1][0]


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
