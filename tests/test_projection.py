"""Features to the width of a network: units that no video lights any more."""

import pytest
import torch

from watchword.layers.projection import Projection


@pytest.mark.parametrize("normalise", [True, False])
def test_units_outlive_a_push_that_all_videos_share(normalise: bool) -> None:
    """What a decoder wants at first is the same for all videos: here, that everything become smaller."""
    torch.manual_seed(0)
    videos = torch.randn(200, 1024).relu() * 2  # large and never negative, as networks show them
    projection = Projection(1024, 64, normalise)
    optimizer = torch.optim.Adam(projection.parameters(), lr=1e-3)
    for _ in range(100):
        optimizer.zero_grad()
        projection(videos).relu().mean().backward()
        optimizer.step()
    lit = (projection(videos) > 0).any(0).float().mean().item()
    assert lit > 0.9 if normalise else lit == 0


def test_without_the_norm_it_is_a_linear_map() -> None:
    torch.manual_seed(0)
    plain = Projection(4, 3, normalise=False)
    assert set(plain.state_dict()) == {"weight", "bias"}  # as captioners have it that were trained before
    features = torch.randn(2, 5, 4)
    torch.testing.assert_close(plain(features), features @ plain.weight.T + plain.bias)
