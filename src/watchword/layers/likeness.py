"""A guess by likeness: what is known of some examples, weighed by how like each of them a film is."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from watchword.layers.attention import flat_places, masked_mean, never_empty
from watchword.tensors import Stream, Streams

Vectors = Mapping[str, Tensor]  # stream -> (B, 2 D)


def gathered(stream: Stream) -> Tensor:
    """A stream as one vector, whatever its length: the mean over its real places and the largest, (B, 2 D).

    Zeros where the stream is absent.
    """
    values, mask = flat_places(stream)
    largest = values.masked_fill(~never_empty(mask).unsqueeze(-1), -torch.inf).amax(1) * mask.any(1, keepdim=True)
    return torch.cat([masked_mean(values, mask), largest], -1)


class Likeness(nn.Module):
    """Kernel regression: a weighted sum over examples of exp(-sharpness |x - x_i|^2), added up over streams.

    x are gathered streams, each number by its spread over the examples and by how much it tells, brought to length 1;
    of that, what lies in the `rank` directions in which examples differ most. Whoever has examples sets all of it at
    once by ridge regression (`settle`); otherwise it learns as a layer does.
    """

    def __init__(
        self, widths: Mapping[str, int], num_examples: int, size: int, sharpness: float = 1.0, rank: int = 256
    ) -> None:
        super().__init__()
        self.sharpness = sharpness
        doubled = {name: 2 * width for name, width in widths.items()}
        ranks = {name: min(rank, num_examples, width) for name, width in doubled.items()}
        self.centre = _parameters({name: torch.zeros(width) for name, width in doubled.items()})
        self.spread = _parameters({name: torch.ones(width) for name, width in doubled.items()})
        self.directions = _parameters({
            name: torch.randn(width, ranks[name]) * width**-0.5 for name, width in doubled.items()
        })
        self.examples = _parameters({name: torch.randn(num_examples, one) for name, one in ranks.items()})
        self.share = _parameters({name: torch.ones(()) for name in widths})  # of each stream
        self.known = nn.Linear(num_examples, size)

    def forward(self, streams: Streams) -> Tensor:
        known: Tensor = self.known(self.alike({name: gathered(streams[name]) for name in self.examples}))
        return known

    def alike(self, vectors: Vectors) -> Tensor:
        """(B, examples): for an example itself, the sum of the shares."""
        parts = [
            self.share[name] * (2 * self.sharpness * (self._placed(name, vectors[name]) @ examples.T - 1)).exp()
            for name, examples in self.examples.items()
        ]
        return torch.stack(parts).sum(0)

    def _standard(self, name: str, vectors: Tensor) -> Tensor:
        return functional.normalize((vectors - self.centre[name]) / self.spread[name], dim=-1)

    def _placed(self, name: str, vectors: Tensor) -> Tensor:
        placed: Tensor = self._standard(name, vectors) @ self.directions[name]  # (B, rank)
        return placed

    @torch.no_grad()
    def settle(self, vectors: Vectors, targets: Tensor, penalties: Tensor) -> None:
        """Makes these films the examples, and what is known of each `targets`, as far as its penalty (n,) allows.

        A number counts by the share of the targets that a line through it would explain, in films that cost little.
        Films that lack a stream, all zeros, tell nothing of its numbers.
        """
        for name, values in vectors.items():
            there = values.any(1) | ~values.any()  # all films, where none has it
            spread = values[there].std(0) + 1e-3
            self.centre[name].copy_(values[there].mean(0))
            telling = _telling(values[there] / spread, targets[there], penalties[there] ** -2)
            self.spread[name].copy_(spread / telling)
            self.directions[name].copy_(_main_directions(self._standard(name, values), self.directions[name].shape[1]))
            self.examples[name].copy_(self._placed(name, values))
        alike = self.alike(vectors).double()  # (n, n)
        mean = targets.double().mean(0)
        weights = torch.linalg.solve(alike + penalties.double().diag(), targets.double() - mean)
        self.known.weight.copy_(weights.T)
        self.known.bias.copy_(mean)


def _telling(values: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """(n, D), (n, M), (n,) -> (D,): how much of all targets a line through one number explains; 1 in the mean."""
    weights = (weights / weights.sum()).unsqueeze(-1)
    values, targets = values - (weights * values).sum(0), targets - (weights * targets).sum(0)
    together = ((weights * values).T @ targets).square().sum(1)  # (D,)
    share = together / (weights * values.square()).sum(0).clamp(min=1e-6)
    return share / share.mean() if share.any() else torch.ones_like(share)


def _main_directions(rows: Tensor, rank: int) -> Tensor:
    """(n, D) -> (D, rank), of length 1 and at right angles: those along which the rows are longest."""
    sizes, vectors = torch.linalg.eigh((rows @ rows.T).double())  # ascending
    lengths = sizes[-rank:].clamp(min=0).sqrt()
    return (rows.double().T @ (vectors[:, -rank:] * torch.where(lengths > 1e-6, 1 / lengths, 0.0))).float()


def _parameters(tensors: Mapping[str, Tensor]) -> nn.ParameterDict:
    return nn.ParameterDict({name: nn.Parameter(tensor) for name, tensor in tensors.items()})
