"""How often the Gumbel top-k sampler's gradient says anything, by temperature.

    python benchmarks/gumbel_gradient.py

50,000 draws of 2 of 9 locations from random attentions; a random reward for each location; seed 0.
"""

import torch

from watchword.layers.attention import gumbel_top_k

if __name__ == "__main__":
    torch.set_num_threads(1)
    for temperature in (1e-4, 1e-2, 0.1, 0.5, 1.0):
        torch.manual_seed(0)
        energies = torch.randn(50_000, 9).requires_grad_()
        rows = gumbel_top_k(energies.softmax(-1), 2, temperature=temperature)
        (rows * torch.randn(50_000, 1, 9)).sum().backward()
        assert energies.grad is not None
        size = energies.grad.abs().amax(-1)
        print(
            f"temperature {temperature:g}: {(size > 1e-3).float().mean():.2%} of the draws carry a gradient, "
            f"the largest {size.max():,.0f}; {(rows.amax(-1) > 0.99).float().mean():.2%} of the rows are clear"
        )
