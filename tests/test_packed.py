"""Faster ways to the same numbers: packed weights, captions read in one go, rows that are shared or leave early."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from tests.conftest import noise_stream
from tests.test_decoding import STREAMS, Table
from tests.test_models import CAPTIONS, small, streams
from watchword.decoding import Ensemble, UnrolledModel, arithmetic_sample, beam, networks, teacher_force
from watchword.layers import packed as layer
from watchword.layers.attention import AdditiveAttention, _has_few_exponentials
from watchword.layers.packed import LEAST_WEIGHTS, pack, packed
from watchword.models import Model, build_model
from watchword.tensors import BOS, EOS, PAD, Memory, State, Step

TARGETS = CAPTIONS[:, :, 1:]
needs_packing = pytest.mark.skipif(not layer.can_pack(), reason="torch without oneDNN")


def large(normalise: bool = True) -> Model:
    """Large enough that its weights are packed."""
    torch.manual_seed(0)
    settings = {"name": "soft_attention", "hidden_size": 128, "embedding_size": 16, "normalise": normalise}
    model = build_model(settings, {"appearance": 256}, 200).eval()
    assert model.project["appearance"].weight.numel() >= LEAST_WEIGHTS
    return model


def features() -> dict[str, object]:
    return {"appearance": noise_stream([5, 3, 4], locations=1, width=256, seed=3)}


def word_by_word(outputs: Tensor, words: Tensor) -> Tensor:
    """As what replaces words it changes nothing, but the model must then take one step after the other."""
    return words


@pytest.mark.parametrize("name", ["soft_attention", "soft_attention normalised"])
def test_captions_read_in_one_go_are_those_read_word_by_word(name: str) -> None:
    model = small(name)
    assert isinstance(model, UnrolledModel)
    found, grads = [], []
    for replace in (None, word_by_word):
        forced = teacher_force(model, streams(), TARGETS, keep_attention=True, replace=replace)
        model.zero_grad()
        model.log_probabilities(forced.outputs)[..., 4:].square().sum().backward()
        found.append(forced)
        grads.append({key: parameter.grad.clone() for key, parameter in model.named_parameters()})
    torch.testing.assert_close(found[0].outputs, found[1].outputs, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found[0].attention, found[1].attention, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-3, atol=1e-4)
    assert teacher_force(model, streams(), TARGETS).attention == {}


@pytest.mark.parametrize(("spread", "is_fast"), [(1.0, True), (9.0, True), (60.0, False)])
def test_attention_by_exponentials_of_its_parts_is_that_of_their_sums(spread: float, is_fast: bool) -> None:
    torch.manual_seed(0)
    attend = AdditiveAttention(16, 16, 32)
    query, keys, values = torch.randn(2, 5, 16), spread * torch.rand(2, 7, 32) - spread / 2, torch.randn(2, 7, 16)
    keys[0, 0] = spread - 1  # tanh is 1 there
    with torch.no_grad():
        attend.from_query.weight *= spread
        assert _has_few_exponentials(attend.from_query(query).unsqueeze(2), keys.unsqueeze(1)) == is_fast
        asked = attend.from_query(query).unsqueeze(2).double()
        exact = ((asked + keys.unsqueeze(1)).tanh() * attend.energy.weight[0]).sum(-1)
        found = attend.energies(query, keys.unsqueeze(1))
        alone = torch.cat([attend.energies(query[:, row : row + 1], keys.unsqueeze(1)) for row in range(5)], 1)
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=3e-6)
    torch.testing.assert_close(found, alone, rtol=1e-5, atol=3e-6)
    context, weights = attend(query, keys, values, torch.ones(2, 7, dtype=torch.bool))
    assert bool(context.requires_grad)  # in training as ever
    torch.testing.assert_close(weights.detach(), found.softmax(-1), rtol=1e-5, atol=1e-6)


@needs_packing
@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_packed_weights_say_the_same(normalise: bool, dtype: torch.dtype, most: float) -> None:
    model = large(normalise)

    @torch.no_grad()
    def said() -> Tensor:
        log_probs = model.log_probabilities(teacher_force(model, features(), TARGETS).outputs)
        assert bool((log_probs[..., [PAD, BOS]] == float("-inf")).all()), "what is never said is said"
        return log_probs[..., 4:].float()

    before = said()
    with packed([model], dtype):
        within = said()
    after = said()
    assert (within - before).abs().max() < most
    assert not torch.equal(within, before), "nothing was packed"
    assert torch.equal(after, before), "the weights stayed packed"


@needs_packing
def test_weights_that_have_changed_are_packed_anew() -> None:
    model = large()
    with packed([model]):
        pass
    with torch.no_grad():
        model.to_words.bias[7] += 100
        with packed([model]):
            assert greedy_words(model) == {7}


def greedy_words(model: Model) -> set[int]:
    return set(beam(model, features(), 1, 3).captions.flatten().tolist())


def test_without_onednn_nothing_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer, "can_pack", lambda: False)
    assert pack(large()) == []


def test_the_networks_of_an_ensemble_are_found() -> None:
    some, others = nn.Linear(2, 2), nn.Linear(2, 2)
    assert networks(Ensemble([some, Ensemble([others])])) == [some, others]  # type: ignore[list-item]
    assert networks(Table(0)) == []


class Counting(Table):
    """Counts the rows that it steps."""

    rows = 0

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        self.rows += words.numel()
        return super().step(words, memory, state)


def at_point(model: Table, video: int, point: float, longest: int) -> Iterator[int]:
    """The caption at a point of the unit interval, found alone."""
    before, last = BOS, BOS
    for time in range(longest):
        widths = model.table[video, before, last].exp().double()
        if not time:
            widths[EOS] = 0
        ends = (widths / widths.sum()).cumsum(0)
        word = int(torch.searchsorted(ends, torch.tensor(point, dtype=torch.float64), right=True))
        start = float(ends[word - 1])
        point = (point - start) / (float(ends[word]) - start)
        yield word
        if word == EOS:
            return
        before, last = last, word


@pytest.mark.parametrize("seed", range(3))
def test_samples_that_begin_alike_share_their_rows(seed: int) -> None:
    model = Counting(seed)
    model.table = model.table.double()  # a difference of rounding grows at every word
    found = arithmetic_sample(model, STREAMS, 50, 5).captions
    for video in range(3):
        for row in range(50):
            expected = list(at_point(model, video, (row + 0.5) / 50, 5))
            said = found[video, row].tolist()
            assert said == expected + [PAD] * (len(said) - len(expected))
    assert model.rows <= 3 * (1 + 2 + 4 + 8 + 16), "two words: 2 beginnings after one of them, 4 after two, ..."


def plain_beam(
    model: Table, video: int, width: int, longest: int, length_power: float
) -> list[tuple[float, list[int]]]:
    """Beam search of one video without any early stop: the finished captions, the best first."""
    going, done = [(0.0, [BOS])], []
    for time in range(longest):
        candidates = [
            (score + float(model.table[video, words[-2] if time else BOS, words[-1], word]), [*words, word])
            for score, words in going
            for word in range(model.table.shape[-1])
            if time or word != EOS
        ]
        candidates = sorted((one for one in candidates if one[0] > float("-inf")), reverse=True)[: 2 * width]
        done += [(score / (time + 1) ** length_power, words[1:]) for score, words in candidates if words[-1] == EOS]
        going = [one for one in candidates if one[1][-1] != EOS][:width]
    return sorted(done, reverse=True)


@pytest.mark.parametrize("length_power", [0.0, 0.5])
@pytest.mark.parametrize("num_best", [1, 3])
def test_rows_that_cannot_win_any_more_leave_the_beam_and_nothing_changes(num_best: int, length_power: float) -> None:
    for seed in range(8):
        model = Counting(seed)
        found = beam(model, STREAMS, 3, 8, num_best=num_best, length_power=length_power)
        for video in range(3):
            best = plain_beam(model, video, 3, 8, length_power)[:num_best]
            scores = torch.tensor([score for score, _ in best])
            torch.testing.assert_close(found.scores[video], scores, rtol=1e-4, atol=1e-5)
            said = [[word for word in caption if word != PAD] for caption in found.captions[video].tolist()]
            assert said == [words for _, words in best]


def test_a_beam_shrinks() -> None:
    """One word is nearly certain at each time step, so after the first caption has ended no other can win."""
    model = Counting(0)
    model.table[:] = torch.tensor([-1e3, -1e3, -1.2, -1e3, -0.4, -4.0]).log_softmax(0)
    widths = []
    step = model.step
    model.step = lambda words, memory, state: widths.append(words.shape[1]) or step(words, memory, state)  # type: ignore[func-returns-value,method-assign]
    beam(model, STREAMS, 4, 12)
    assert max(widths) == 4
    assert widths[-1] < 4
