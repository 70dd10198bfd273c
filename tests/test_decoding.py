"""Searches over a model small enough to know everything about."""

import itertools

import pytest
import torch
from torch import Tensor

from tests.conftest import noise_stream
from watchword.decoding import Ensemble, arithmetic_sample, beam, greedy, mbr_decode, ngram_similarity, rescore, sample
from watchword.tensors import BOS, EOS, PAD, Memory, State, Step, Streams

WORDS = 6  # PAD BOS EOS UNK and two words
STREAMS = {"appearance": noise_stream([2, 2, 2])}


class Table:
    """Says the next word by a table of the last two words, another table for every video."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        logits = 2 * torch.randn(3, WORDS, WORDS, WORDS, generator=generator)  # (B, before, last, next)
        logits[..., [PAD, BOS, 3]] = float("-inf")
        self.table = logits.log_softmax(-1)

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        videos = streams["appearance"].mask.shape[0]
        return {"video": torch.arange(videos)}, {"before": torch.full((videos, 1), BOS)}

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        return Step(self.table[memory["video"].unsqueeze(1), state["before"], words], {"before": words})

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return outputs


def all_captions(max_words: int) -> Tensor:
    """Every caption of one word or more that ends within max_words, and padding."""
    found = [
        (*words, EOS, *[PAD] * (max_words - length - 1))
        for length in range(1, max_words)
        for words in itertools.product((4, 5), repeat=length)
    ]
    return torch.tensor(found).expand(3, -1, -1)


@pytest.mark.parametrize("length_power", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_full_width_beam_finds_the_best_caption_there_is(seed: int, length_power: float) -> None:
    model, everything = Table(seed), all_captions(4)
    scores = rescore(model, STREAMS, everything, length_power)  # (B, all)
    found = beam(model, STREAMS, 16, 4, num_best=3, length_power=length_power)
    best, rows = scores.topk(3, 1)
    torch.testing.assert_close(found.scores, best)
    assert torch.equal(found.captions, everything.gather(1, rows.unsqueeze(-1).expand(-1, -1, 4)))


def test_a_narrow_beam_reports_scores_of_its_own_captions() -> None:
    found = beam(Table(7), STREAMS, 3, 6, num_best=3, length_power=0.5)
    torch.testing.assert_close(found.scores, rescore(Table(7), STREAMS, found.captions, 0.5))
    assert (found.scores[:, :-1] >= found.scores[:, 1:]).all()


def test_greedy_takes_the_likeliest_word_and_never_says_nothing() -> None:
    model = Table(3)
    model.table[:, BOS, BOS, EOS] = 0.0  # nothing would be likelier than anything
    found = greedy(model, STREAMS, 12)
    for video in range(3):
        before, last, total = BOS, BOS, 0.0
        for location, word in enumerate(found.captions[video, 0].tolist()):
            options = model.table[video, before, last].clone()
            if location == 0:
                options[EOS] = float("-inf")
            assert word == int(options.argmax())
            before, last, total = last, word, total + float(options[word])
            if word == EOS:
                break
        assert float(found.scores[video, 0]) == pytest.approx(total, rel=1e-5)
    assert (beam(model, STREAMS, 4, 6).captions[:, 0, 0] != EOS).all()


def test_a_caption_that_never_ends_is_cut() -> None:
    model = Table(0)
    model.table[..., EOS] = float("-inf")
    found = beam(model, STREAMS, 2, 3)
    assert (found.captions != PAD).all()
    assert not (found.captions == EOS).any()
    torch.testing.assert_close(found.scores, rescore(model, STREAMS, found.captions))


def test_the_number_of_videos_in_a_batch_does_not_change_a_search() -> None:
    model = Table(4)
    together = beam(model, STREAMS, 2, 6, length_power=0.3)
    alone = beam(model, {"appearance": noise_stream([2])}, 2, 6, length_power=0.3)
    torch.testing.assert_close(together.scores[:1], alone.scores)
    assert torch.equal(together.captions[:1], alone.captions)


def test_samples_follow_the_probabilities_and_the_seed() -> None:
    model = Table(2)
    draw = lambda seed: sample(model, STREAMS, 4000, 1, generator=torch.Generator().manual_seed(seed))  # noqa: E731
    first = draw(0).captions[:, :, 0]
    shares = torch.stack([(first == word).float().mean(1) for word in range(WORDS)], -1)
    torch.testing.assert_close(shares, model.table[:, BOS, BOS].exp(), atol=0.04, rtol=0)
    assert torch.equal(draw(0).captions, draw(0).captions)
    assert not torch.equal(draw(0).captions, draw(1).captions)


def test_a_nucleus_of_nothing_leaves_the_likeliest_word() -> None:
    likeliest = Table(2).table[:, BOS, BOS].argmax(-1, keepdim=True)
    assert (sample(Table(2), STREAMS, 20, 1, nucleus=0.0).captions[:, :, 0] == likeliest).all()


def test_top_k_and_nucleus_leave_only_the_likeliest_words() -> None:
    model = Table(2)
    likeliest = model.table[:, BOS, BOS].argmax(-1, keepdim=True)
    for narrowed in ({"top_k": 1}, {"nucleus": 1e-6}, {"temperature": 1e-4}):
        assert (sample(model, STREAMS, 50, 1, **narrowed).captions[:, :, 0] == likeliest).all()


def test_sampled_scores_are_those_of_the_captions() -> None:
    found = sample(Table(5), STREAMS, 6, 5, temperature=2.0, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(found.scores, rescore(Table(5), STREAMS, found.captions))


def test_an_ensemble_says_the_mean_of_the_probabilities() -> None:
    one, two = Table(0), Table(1)
    both = Ensemble([one, two])
    captions = all_captions(3)
    single = Ensemble([one])
    torch.testing.assert_close(rescore(single, STREAMS, captions), rescore(one, STREAMS, captions))
    memory, state = both.encode(STREAMS)
    step = both.step(torch.full((3, 1), BOS), memory, state)
    mean = (one.table[:, BOS, BOS].exp() + two.table[:, BOS, BOS].exp()) / 2
    torch.testing.assert_close(both.log_probabilities(step.outputs)[:, 0].exp(), mean)
    found = beam(both, STREAMS, 16, 3)
    torch.testing.assert_close(found.scores[:, 0], rescore(both, STREAMS, captions).max(1).values)


def test_the_similarity_of_captions_is_the_mean_cosine_of_their_ngram_counts() -> None:
    a, b, c = [5, 6, 7, EOS], [5, 6, EOS, PAD], [5, 5, EOS, PAD]
    alike = ngram_similarity(torch.tensor([[a, b, c]]), torch.tensor([[a, b, c]]))[0]
    # a, b: words 3 of 4 and 3; pairs: "5 6" of 3 and 2; triples: none of 2 and 1; b has no four words
    assert alike[0, 1].item() == pytest.approx((3 / (4 * 3) ** 0.5 + 1 / (3 * 2) ** 0.5) / 4)
    # b, c: "5" once and twice and the end: 3 of norms 3 and 5; no pair ("6 end" and "5 end" differ)
    assert alike[1, 2].item() == pytest.approx((3 / (3 * 5) ** 0.5) / 4)
    assert alike[0, 0].item() == pytest.approx(1.0)
    torch.testing.assert_close(alike, alike.T)


def test_an_ngram_weighs_what_its_most_telling_word_does() -> None:
    a, b = [5, 6, EOS], [5, 7, EOS]
    content = [0.0] * 5 + [0.1, 2.0, 2.0]
    alike = ngram_similarity(torch.tensor([[a]]), torch.tensor([[b]]), content)[0, 0, 0]
    # the end tells nothing and "5" little: 0.01 of 0.01 + 4; the pairs and the triple of a and b all differ
    assert alike.item() == pytest.approx(0.01 / 4.01 / 4)
    plain = ngram_similarity(torch.tensor([[a]]), torch.tensor([[b]]))[0, 0, 0]
    assert plain.item() == pytest.approx(2 / 3 / 4)


def test_captions_spread_evenly_stand_for_the_distribution_and_do_not_depend_on_the_batch() -> None:
    model, everything = Table(0), all_captions(3)
    found = arithmetic_sample(model, STREAMS, 2000, 3).captions
    something = 1 - model.table[:, BOS, BOS, EOS].exp()  # the first word is never the end
    shares = rescore(model, STREAMS, everything).exp() / something.unsqueeze(1)  # (B, all)
    seen = (found.unsqueeze(2) == everything.unsqueeze(1)).all(-1).float().mean(1)
    assert (seen - shares).abs().max() < 2e-3  # 2000 draws by chance are off by about 1e-2
    model.table = model.table[1:]
    fewer = arithmetic_sample(model, {"appearance": noise_stream([2, 2])}, 2000, 3).captions
    assert torch.equal(fewer, found[1:])


def test_consensus_prefers_what_most_possible_captions_share_to_the_likeliest_one() -> None:
    """The likeliest first word leads to endings that differ; the second likeliest always goes on in one way."""

    class Divided:
        def encode(self, streams: Streams) -> tuple[Memory, State]:
            return {}, {"location": torch.zeros(1, 1, 1, dtype=torch.long)}

        def step(self, words: Tensor, memory: Memory, state: State) -> Step:
            table = torch.full((40, 40), 1e-9)
            table[BOS, 4], table[BOS, 5] = 0.4, 0.6
            table[4, 6], table[6, EOS] = 1.0, 1.0  # 4 6 end, always
            table[5, 10:40] = 1 / 30  # 5, then any of thirty
            table[10:40, EOS] = 1.0
            return Step(table[words].log(), {"location": state["location"].expand(*words.shape, 1)})

        def log_probabilities(self, outputs: Tensor) -> Tensor:
            return outputs.log_softmax(-1)

    streams = {"appearance": noise_stream([2])}
    likely = greedy(Divided(), streams, 4).captions[0, 0]
    agreed = mbr_decode(Divided(), streams, 60, 4)
    assert likely[0] == 5
    assert agreed.captions[0, 0].tolist()[:3] == [4, 6, EOS]
    again = mbr_decode(Divided(), streams, 60, 4)
    assert torch.equal(agreed.captions, again.captions)  # nothing is left to chance: the same video, the same caption
    assert 0 < agreed.scores[0, 0] <= 1
