"""The multi-sample bound against all choices there are: a case small enough to enumerate."""

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.conftest import noise_stream
from watchword.config import Data
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.losses.multi_sample import MultiSample, MultiSampleSettings, advantages, bound, draw_along
from watchword.models import build_model
from watchword.models.dual_afr import Draw, DualAFR
from watchword.tensors import BOS, EOS, PAD, Batch
from watchword.text.vocabulary import Vocabulary
from watchword.training.evaluation import video_losses
from watchword.types import Clip, StreamArrays

CAPTION = torch.tensor([[[BOS, 5, 6, EOS]]])  # the second and the third word look at something


class Told(nn.Module):
    """A draw whose outcomes are given: for each call the choice of each caption."""

    def __init__(self, outcomes: list[list[int]]) -> None:
        super().__init__()
        self.outcomes = iter(outcomes)

    def forward(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        chosen = torch.tensor([next(self.outcomes)])
        return chosen, weights.gather(-1, chosen.unsqueeze(-1)).squeeze(-1).log()


def model_of(hard: str) -> tuple[DualAFR, Batch]:
    torch.manual_seed(1)
    settings = {
        "name": "dual_afr",
        "variant": "hard",
        "hard": hard,
        "layers": ["low", "deep"],
        "top": "deep",
        "dropout": 0.0,
        "hidden_size": 5,
        "embedding_size": 4,
        "attention_size": 4,
        "initial_range": 0.9,
    }
    model = build_model(settings, {"low": 3, "deep": 3}, 8).double()
    streams = {"low": noise_stream([2], 1, 3, seed=1), "deep": noise_stream([2], 1, 3, seed=2)}
    doubled = {name: type(one)(one.values.double(), one.mask, one.times, one.boxes) for name, one in streams.items()}
    assert isinstance(model, DualAFR)
    return model, Batch(("a",), doubled, CAPTION)


def all_choices(model: DualAFR, batch: Batch, hard: str) -> tuple[Tensor, Tensor]:
    """log p(Y|m) and log p(m) of every m: at each word one of two locations, one of two layers, or both."""
    draws = 2 if hard == "both" else 1  # a word
    words = CAPTION.shape[2] - 1
    choices = list(product((0, 1), repeat=draws * (words - 1)))
    first = [[0] * len(choices)] * draws  # what the first word would choose is without effect
    model.draw = Told([*first, *(list(column) for column in zip(*choices, strict=True))])  # type: ignore[assignment]
    likelihood, choice = draw_along(model, batch, CAPTION[:, :, 1:].expand(-1, len(choices), -1), 0.0)
    model.draw = Draw()
    return likelihood[0], choice[0]


def gradient(model: DualAFR, value: Tensor) -> Tensor:
    found = torch.autograd.grad(value, list(model.parameters()), retain_graph=True, allow_unused=True)
    return torch.cat([torch.zeros(0).double() if one is None else one.flatten() for one in found])


@pytest.mark.parametrize("hard", ["both", "layers", "locations"])
def test_the_estimator_is_right_in_the_mean_and_varies_less_than_the_plain_one(hard: str) -> None:
    model, batch = model_of(hard)
    likelihood, choice = all_choices(model, batch, hard)
    torch.testing.assert_close(choice.exp().sum(), torch.ones((), dtype=torch.double))
    pairs = torch.tensor(list(product(range(len(choice)), repeat=2)))  # K = 2
    likelihoods, choices = likelihood[pairs], choice[pairs]
    probability = choices.sum(-1).exp()
    exact = gradient(model, (probability * (likelihoods.logsumexp(-1) - torch.tensor(2.0).log())).sum())  # Eq. 12
    assert exact.abs().max() > 1e-3
    for against_others in (True, False):
        estimate = gradient(model, (probability.detach() * bound(likelihoods, choices, against_others)).sum())
        torch.testing.assert_close(estimate, exact, rtol=1e-8, atol=1e-10)

    def variance(against_others: bool) -> Tensor:
        """Of the term that differs: L^ (or L) times the gradient of log p(m), by the choice's own energies."""
        learned = advantages(likelihoods) if against_others else bound(likelihoods, choices).unsqueeze(-1).expand(-1, 2)
        score = torch.stack([gradient(model, one) for one in choice])[pairs]  # (pairs, K, parameters)
        each = (learned.detach().unsqueeze(-1) * score).sum(1)
        mean = (probability.detach().unsqueeze(-1) * each).sum(0)
        return (probability.detach() * (each - mean).square().sum(-1)).sum()

    assert variance(True) < 0.5 * variance(False)


def test_the_mean_of_many_drawn_gradients_comes_near_the_exact_one() -> None:
    """The whole way: the model draws, the loss sums."""
    model, batch = model_of("both")
    likelihood, choice = all_choices(model, batch, "both")
    likelihoods, choices = (part[torch.tensor(list(product(range(16), repeat=2)))] for part in (likelihood, choice))
    exact = -gradient(model, (choices.sum(-1).exp() * (likelihoods.logsumexp(-1) - torch.tensor(2.0).log())).sum())
    many = Batch(("a",), batch.streams, CAPTION.expand(-1, 4000, -1))  # 4,000 captions of one video
    torch.manual_seed(5)
    drawn = gradient(model.train(), MultiSample(MultiSampleSettings(samples=2))(model, many, 0.0).total) / 4000
    assert (drawn - exact).norm() < 0.1 * exact.norm()


def test_advantages_by_hand() -> None:
    """p(Y|m) of 1/2, 1/8 and 1/8: the geometric mean of the others stands in for each."""
    likelihood = torch.tensor([1 / 2, 1 / 8, 1 / 8]).log()
    whole = torch.tensor(3 / 4)
    expected = torch.stack([whole / (1 / 8 + 1 / 8 + 1 / 8), whole / (1 / 2 + 1 / 8 + 1 / 4), whole / 0.875]).log()
    torch.testing.assert_close(advantages(likelihood), expected)
    assert float(bound(likelihood, torch.randn(3))) == pytest.approx(float((whole / 3).log()))


def test_more_samples_make_a_tighter_bound() -> None:
    model, batch = model_of("both")
    likelihood, choice = all_choices(model, batch, "both")
    marginal = (likelihood + choice).logsumexp(0)
    bounds = [(likelihood * choice.exp()).sum()]
    for samples in (2, 3):
        rows = torch.tensor(list(product(range(16), repeat=samples)))
        value = likelihood[rows].logsumexp(-1) - torch.tensor(float(samples)).log()
        bounds.append((choice[rows].sum(-1).exp() * value).sum())
    assert bounds[0] < bounds[1] < bounds[2] < marginal


def test_nothing_is_chosen_for_the_first_word_and_behind_the_end() -> None:
    model, batch = model_of("both")
    model.eval()
    longer = torch.nn.functional.pad(CAPTION[:, :, 1:], (0, 3), value=PAD)
    for part, same in zip(
        draw_along(model, batch, longer, 0.0), draw_along(model, batch, CAPTION[:, :, 1:], 0.0), strict=True
    ):
        torch.testing.assert_close(part, same)
    assert draw_along(model, batch, CAPTION[:, :, 1:2], 0.0)[1].item() == 0


def test_the_bound_of_each_video_is_that_of_its_captions() -> None:
    model, batch = model_of("both")
    loss = MultiSample(MultiSampleSettings(samples=4))
    torch.manual_seed(2)
    whole = loss(model, batch, 0.0)
    torch.manual_seed(2)
    values, words = loss.of_videos(model, batch, 0.0)
    torch.testing.assert_close(values.sum(), whole.total)
    assert words.tolist() == [3]


def test_what_is_reported_of_a_run_is_the_bound_and_not_the_likelihood_along_one_path(tmp_path: Path) -> None:
    model, batch = model_of("both")
    likelihood, choice = all_choices(model, batch, "both")
    marginal, likeliest = (likelihood + choice).logsumexp(0).item(), likelihood[choice.argmax()].item()
    store = Store(tmp_path)
    for name, stream in batch.streams.items():
        arrays = StreamArrays(*(part[0].numpy() for part in (stream.values.float(), stream.times, stream.boxes)))
        store.write("a", name, arrays, {})
    run: Any = SimpleNamespace(
        recipe=SimpleNamespace(data=Data(captions=tmp_path, store=tmp_path, streams=("low", "deep"))),
        vocabulary=Vocabulary(["one", "two", "three", "four"]),
        model=lambda: model.float(),
    )
    losses, words = video_losses(run, [Clip("a", "val", ("two three",) * 400)])
    assert words.tolist() == [1200]
    assert losses[0] / 400 == pytest.approx(-marginal, abs=0.02)
    assert abs(likeliest - marginal) > 0.05


def test_every_attention_learns_by_the_bound() -> None:
    model, batch = model_of("both")
    loss = MultiSample(MultiSampleSettings())(model.train(), batch, sampling_rate=0.3)
    loss.total.backward()
    assert float(loss.weight) == 3
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_a_model_that_draws_nothing_is_refused_with_the_setting_that_helps() -> None:
    model = build_model({"name": "dual_afr", "variant": "soft"}, {"deep": 3, "top": 3}, 8)
    with pytest.raises(WatchwordError, match=r"model\.variant=hard"):
        MultiSample(MultiSampleSettings())(model, model_of("both")[1], 0.0)
