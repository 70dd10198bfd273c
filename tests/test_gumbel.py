"""The Gumbel top-k sampler, and weights on one stream's instants brought to another's."""

from itertools import permutations
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import noise_stream
from watchword.layers.attention import folding, gumbel_top_k, nearest, time_step_means

PROBABILITIES = torch.tensor([0.5, 0.3, 0.15, 0.05])


@given(st.integers(1, 5), st.integers(0, 10_000))
@settings(max_examples=40)
def test_k_rows_are_nearly_one_hot_and_at_different_locations(num_chosen: int, seed: int) -> None:
    torch.manual_seed(seed)
    rows = gumbel_top_k(torch.randn(3, 200, 9).softmax(-1), num_chosen)
    assert rows.shape == (3, 200, num_chosen, 9)
    torch.testing.assert_close(rows.sum(-1), torch.ones(3, 200, num_chosen))
    assert (rows.amax(-1) > 0.99).float().mean() > 0.99  # a draw within 5 temperatures of the next is no clear choice
    clear = rows.round().sum(-2)
    assert (clear <= 1).float().mean() > 0.995


def test_the_first_pick_is_drawn_by_the_probabilities() -> None:
    torch.manual_seed(0)
    rows = gumbel_top_k(PROBABILITIES.expand(100_000, 4), 1)
    torch.testing.assert_close(rows.mean((0, 1)), PROBABILITIES, atol=0.006, rtol=0)  # 4 standard errors


def test_the_second_pick_is_drawn_from_what_is_left() -> None:
    """Without replacement: P(i then j) = p_i p_j / (1 - p_i)."""
    torch.manual_seed(0)
    first, second = gumbel_top_k(PROBABILITIES.expand(100_000, 4), 2).argmax(-1).unbind(-1)
    found = torch.bincount(4 * first + second, minlength=16).view(4, 4) / 100_000
    expected = PROBABILITIES.outer(PROBABILITIES) / (1 - PROBABILITIES).unsqueeze(1)
    torch.testing.assert_close(found, expected.fill_diagonal_(0), atol=0.006, rtol=0)


def test_without_noise_the_rows_are_the_k_largest_in_order() -> None:
    rows = gumbel_top_k(PROBABILITIES[[2, 0, 3, 1]], 3, noise=False)
    assert rows.argmax(-1).tolist() == [1, 3, 0]
    torch.testing.assert_close(rows, torch.eye(4)[[1, 3, 0]])


def test_eq_5_and_6_by_hand() -> None:
    """Temperature 0.5, no noise: softmax of 2 log(10 p) is p squared, over its sum; then of what that leaves."""
    probabilities = torch.tensor([0.6, 0.4])
    rows = gumbel_top_k(probabilities, 2, temperature=0.5, noise=False)
    first = torch.tensor([36.0, 16.0]) / 52
    torch.testing.assert_close(rows[0], first)
    torch.testing.assert_close(rows[1], torch.tensor([0.0, 1.0]))  # 0.6 - 0.69 is below 0: out of the draw


def test_the_gradient_reaches_the_probabilities_and_pulls_towards_the_better_location() -> None:
    """d E[reward] / d p_i is the reward of location i, up to a constant: the mean gradient must order them."""
    torch.manual_seed(0)
    energies = torch.zeros(4, requires_grad=True)
    rows = gumbel_top_k(energies.softmax(-1).expand(40_000, 4), 1, temperature=0.1)
    (rows * torch.tensor([3.0, 1.0, 0.0, 0.0])).sum((-2, -1)).mean().backward()
    assert energies.grad is not None
    expected = torch.tensor([0.5, 0.0, -0.25, -0.25])  # p_i (r_i - mean r)
    torch.testing.assert_close(energies.grad, expected, atol=0.04, rtol=0)


REWARDS = torch.tensor([3.0, 1.0, 0.0, 0.0], dtype=torch.float64)
ENERGIES = torch.tensor([1.0, 0.3, -0.2, -1.0], dtype=torch.float64)


def exact_gradient(num_chosen: int) -> torch.Tensor:
    """Of the expected reward of k locations drawn without replacement: all orders of drawing, one by one."""
    energies = ENERGIES.clone().requires_grad_()
    probabilities = energies.softmax(-1)
    total = torch.zeros((), dtype=torch.float64)
    for order in permutations(range(4), num_chosen):
        left, likely = torch.ones((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
        for location in order:
            likely = likely * probabilities[location] / left
            left = left - probabilities[location]
        total = total + likely * REWARDS[list(order)].sum()
    (gradient,) = torch.autograd.grad(total, energies)
    return gradient


def mean_gradient(num_chosen: int, **settings: Any) -> torch.Tensor:
    torch.manual_seed(0)
    energies = ENERGIES.clone().requires_grad_()
    rows = gumbel_top_k(energies.softmax(-1).expand(60_000, 4), num_chosen, **settings)
    (rows * REWARDS).sum((-2, -1)).mean().backward()
    assert energies.grad is not None
    return energies.grad


def test_two_rows_teach_by_the_exact_gradient_at_a_mild_temperature() -> None:
    exact = exact_gradient(2)
    torch.testing.assert_close(exact, torch.tensor([0.514, 0.056, -0.372, -0.198]).double(), atol=1e-3, rtol=0)
    torch.testing.assert_close(mean_gradient(2, temperature=0.1), exact, atol=0.08, rtol=0)


def test_three_rows_are_biased_and_pull_in_the_right_order() -> None:
    found, exact = mean_gradient(3, temperature=0.1), exact_gradient(3)
    assert found[0] > exact[0] + 0.03  # 0.29 where 0.16 is exact
    assert found[0] > found[1] > 0 > found[2:].max()


@pytest.mark.parametrize("num_chosen", [2, 3])
def test_straight_through_rows_are_one_hot_and_pull_towards_the_best_location(num_chosen: int) -> None:
    rows = gumbel_top_k(torch.tensor([0.4, 0.3, 0.2, 0.1]), num_chosen, temperature=0.5, straight_through=True)
    assert torch.equal(rows.sort(-1).values[:, -1].round(decimals=5), torch.ones(num_chosen))
    assert rows.sum(0).max() < 1.001
    found = mean_gradient(num_chosen, temperature=0.5, straight_through=True)
    assert found[0] > 0.5 > 0 > found[1:].max()  # the second best too is pushed down, where exactly it is pulled up


def test_at_the_papers_temperature_the_gradient_is_there_and_finite_though_few_draws_carry_it() -> None:
    torch.manual_seed(0)
    energies = torch.randn(20_000, 9).requires_grad_()
    rows = gumbel_top_k(energies.softmax(-1), 2)
    (rows * torch.randn(9)).sum().backward()
    assert energies.grad is not None
    assert energies.grad.isfinite().all()
    carrying = (energies.grad.abs().amax(-1) > 1e-6).float().mean()
    assert 0 < carrying < 0.05


def test_what_has_no_probability_is_never_chosen_and_nothing_left_is_a_row_of_zeros() -> None:
    probabilities = torch.tensor([[0.0, 1.0, 0.0], [0.6, 0.0, 0.4]])
    for noise in (True, False):
        rows = gumbel_top_k(probabilities.requires_grad_(), 3, noise=noise)
        assert rows.isfinite().all()
        assert rows.sum(-1).tolist() == [[1, 0, 0], [1, 1, 0]]
        assert rows[0, 0, 1] == 1
        assert rows[1, :, 1].sum() == 0
        (gradient,) = torch.autograd.grad(rows.sum(), probabilities)
        assert gradient.isfinite().all()


def test_eq_8_of_nine_instants_every_third_gets_the_mean_of_its_three() -> None:
    times, sparse = torch.arange(9.0).unsqueeze(0), torch.tensor([[1.0, 4.0, 7.0]])
    weights = torch.tensor([[[0.1, 0.0, 0.2, 0.3, 0.0, 0.0, 0.1, 0.1, 0.2]]])
    fold = folding(times, torch.ones(1, 9, dtype=torch.bool), sparse, torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(weights @ fold, torch.tensor([[[0.3, 0.3, 0.4]]]) / 3)


def test_folding_knows_only_what_is_real_and_leaves_no_frame_without_an_instant() -> None:
    times, sparse = torch.tensor([[0.0, 1.0, 9.0]]), torch.tensor([[0.0, 0.4, 5.0, 9.0]])
    fold = folding(times, torch.tensor([[True, True, False]]), sparse, torch.tensor([[True, True, True, False]]))
    expected = torch.tensor([[1.0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]])  # 5.0 is nobody's: it takes the instant 1.0
    torch.testing.assert_close(fold[0], expected)


def test_the_nearest_instant_is_a_real_one() -> None:
    found = nearest(torch.tensor([[0.0, 2.0]]), torch.tensor([[0.1, 1.0, 1.9]]), torch.tensor([[False, True, True]]))
    assert found.tolist() == [[1, 2]]


@pytest.mark.parametrize("locations", [1, 3])
def test_a_time_step_is_the_mean_of_its_real_locations(locations: int) -> None:
    stream = noise_stream([2, 1], locations=locations, width=4)
    stream.mask[0, 0, 0] = locations == 1
    values, mask = time_step_means(stream)
    assert mask.tolist() == [[True, True], [True, False]]
    torch.testing.assert_close(values[0, 0], stream.values[0, 0, 0 if locations == 1 else 1 :].mean(0))
