"""Kernel ridge regression from pooled features to a sentence embedding."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from watchword.layers.attention import flat_locations, masked_mean, never_empty
from watchword.layers.projection import accept_old_names
from watchword.tensors import Stream, Streams

Vectors = Mapping[str, Tensor]  # stream -> (B, 2 D)
# parameters in checkpoints written before 0.2
RENAMED = {"centre": "mean", "spread": "scale", "share": "weight", "known": "output"}


def pooled(stream: Stream) -> Tensor:
    """Mean and maximum of a stream over its real locations, (B, 2 D); zeros where the stream is absent."""
    values, mask = flat_locations(stream)
    largest = values.masked_fill(~never_empty(mask).unsqueeze(-1), -torch.inf).amax(1) * mask.any(1, keepdim=True)
    return torch.cat([masked_mean(values, mask), largest], -1)


class KernelRegression(nn.Module):
    """A weighted sum over examples of exp(-gamma |x - x_i|^2), added up over streams.

    x is a pooled stream: each feature divided by its scale, the vector brought to length 1 and projected to the `rank`
    principal directions of the examples. `fit` sets all parameters at once by ridge regression; without it they train
    like those of any layer.
    """

    def __init__(
        self, widths: Mapping[str, int], num_examples: int, size: int, gamma: float = 1.0, rank: int = 256
    ) -> None:
        super().__init__()
        self.gamma = gamma
        doubled = {name: 2 * width for name, width in widths.items()}
        ranks = {name: min(rank, num_examples, width) for name, width in doubled.items()}
        self.mean = _parameters({name: torch.zeros(width) for name, width in doubled.items()})
        self.scale = _parameters({name: torch.ones(width) for name, width in doubled.items()})
        self.directions = _parameters(
            {name: torch.randn(width, ranks[name]) * width**-0.5 for name, width in doubled.items()}
        )
        self.examples = _parameters({name: torch.randn(num_examples, one) for name, one in ranks.items()})
        self.weight = _parameters({name: torch.ones(()) for name in widths})  # of each stream
        self.output = nn.Linear(num_examples, size)
        accept_old_names(self, RENAMED)

    def forward(self, streams: Streams) -> Tensor:
        predicted: Tensor = self.output(self.kernel({name: pooled(streams[name]) for name in self.examples}))
        return predicted

    def kernel(self, vectors: Vectors) -> Tensor:
        """(B, examples): for an example itself, the sum of the streams' weights."""
        parts = [
            self.weight[name] * (2 * self.gamma * (self._projected(name, vectors[name]) @ examples.T - 1)).exp()
            for name, examples in self.examples.items()
        ]
        return torch.stack(parts).sum(0)

    def _standard(self, name: str, vectors: Tensor) -> Tensor:
        return functional.normalize((vectors - self.mean[name]) / self.scale[name], dim=-1)

    def _projected(self, name: str, vectors: Tensor) -> Tensor:
        projected: Tensor = self._standard(name, vectors) @ self.directions[name]  # (B, rank)
        return projected

    @torch.no_grad()
    def fit(self, vectors: Vectors, targets: Tensor, penalties: Tensor) -> None:
        """Fits the regression to n examples: vectors (n, 2 D), targets (n, M), ridge penalties (n,).

        The scale of a feature grows with its variance and shrinks with the share of the targets that it explains
        alone, weighted towards examples of small penalty. Examples that lack a stream (all zeros) do not count there.
        """
        for name, values in vectors.items():
            present = values.any(1) | ~values.any()  # all examples, where none has the stream
            scale = values[present].std(0) + 1e-3
            self.mean[name].copy_(values[present].mean(0))
            relevance = _relevance(values[present] / scale, targets[present], penalties[present] ** -2)
            self.scale[name].copy_(scale / relevance)
            rank = self.directions[name].shape[1]
            self.directions[name].copy_(_principal_directions(self._standard(name, values), rank))
            self.examples[name].copy_(self._projected(name, values))
        kernel = self.kernel(vectors).double()  # (n, n)
        mean = targets.double().mean(0)
        weights = torch.linalg.solve(kernel + penalties.double().diag(), targets.double() - mean)
        self.output.weight.copy_(weights.T)
        self.output.bias.copy_(mean)


def _relevance(values: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """(n, D), (n, M), (n,) -> (D,): the share of the targets that a linear fit on one feature explains; mean 1."""
    weights = (weights / weights.sum()).unsqueeze(-1)
    values, targets = values - (weights * values).sum(0), targets - (weights * targets).sum(0)
    covariance = ((weights * values).T @ targets).square().sum(1)  # (D,)
    share = covariance / (weights * values.square()).sum(0).clamp(min=1e-6)
    return share / share.mean() if share.any() else torch.ones_like(share)


def _principal_directions(rows: Tensor, rank: int) -> Tensor:
    """(n, D) -> (D, rank), the principal directions of the rows, orthonormal."""
    sizes, vectors = torch.linalg.eigh((rows @ rows.T).double())  # ascending
    lengths = sizes[-rank:].clamp(min=0).sqrt()
    return (rows.double().T @ (vectors[:, -rank:] * torch.where(lengths > 1e-6, 1 / lengths, 0.0))).float()


def _parameters(tensors: Mapping[str, Tensor]) -> nn.ParameterDict:
    return nn.ParameterDict({name: nn.Parameter(tensor) for name, tensor in tensors.items()})
