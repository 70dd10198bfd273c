"""Recurrent cells for states with two leading axes, (B, S, ...)."""

import torch
from torch import Tensor, nn


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
        into, forget, candidate, out = self.gates(torch.cat([inputs, hidden], -1)).chunk(4, -1)
        cell = forget.sigmoid() * cell + into.sigmoid() * candidate.tanh()
        return out.sigmoid() * cell.tanh(), cell
