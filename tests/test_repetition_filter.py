"""The repetition filter: what it forbids, for any search."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import noise_stream
from watchword.decoding import RepetitionFilter, beam, greedy, rescore, sample
from watchword.tensors import EOS, PAD, Memory, State, Step, Streams
from watchword.text.vocabulary import NEVER_LAST, Vocabulary, as_sentence, never_last, spelled, without_loose_end

WORDS = 9  # four specials and five words


class Chain:
    """A model whose next word depends on the last alone: log probabilities from a table (V, V)."""

    def __init__(self, table: torch.Tensor) -> None:
        self.table = table.log_softmax(-1)

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        return {}, {"count": torch.zeros(next(iter(streams.values())).mask.shape[0], 1)}

    def step(self, words: torch.Tensor, memory: Memory, state: State) -> Step:
        return Step(self.table[words], {"count": state["count"] + 1})

    def log_probabilities(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs


def stutterer() -> Chain:
    """Says 4 5 4 5 4 5 ... for ever if it may."""
    table = torch.full((WORDS, WORDS), -4.0)
    table[:, :2], table[:, 3] = -50.0, -50.0
    table[1, 4] = table[4, 5] = table[5, 4] = 4.0
    table[7, EOS] = 2.0
    return Chain(table)


def captions_of(found: torch.Tensor) -> list[list[int]]:
    return [[word for word in row if word != PAD] for row in found.flatten(0, 1).tolist()]


def is_free_of_repetitions(caption: list[int], forbidden: set[int]) -> bool:
    pairs = list(itertools.pairwise(caption))
    ended = caption[-1] == EOS
    return (
        len(set(pairs)) == len(pairs)
        and all(one != other for one, other in pairs)
        and not (ended and len(caption) > 1 and caption[-2] in forbidden)
    )


def test_a_filtered_model_does_not_repeat_itself() -> None:
    streams = {"x": noise_stream([2])}
    assert captions_of(greedy(stutterer(), streams, 6).captions) == [[4, 5, 4, 5, 4, 5]]
    (filtered,) = captions_of(greedy(RepetitionFilter(stutterer()), streams, 6).captions)
    assert filtered[:3] == [4, 5, 4]  # "4 5" came once and must not come again
    assert filtered[3] != 5
    assert is_free_of_repetitions(filtered, set())


def test_no_caption_ends_in_a_word_that_must_not_be_last() -> None:
    table = torch.zeros(WORDS, WORDS)
    table[:, :2], table[:, 3] = -50.0, -50.0
    table[:, EOS] = 3.0
    table[1, 4] = 6.0  # it begins with 4 and would stop there
    streams = {"x": noise_stream([2, 3])}
    assert captions_of(beam(Chain(table), streams, 3, 5).captions) == [[4, EOS]] * 2
    for caption in captions_of(beam(RepetitionFilter(Chain(table), [4]), streams, 3, 5, num_best=3).captions):
        assert is_free_of_repetitions(caption, {4})


@given(seed=st.integers(0, 10_000), width=st.integers(1, 4), ngram=st.integers(2, 3))
def test_no_search_repeats_itself_whatever_the_model(seed: int, width: int, ngram: int) -> None:
    torch.manual_seed(seed)
    table = 3 * torch.randn(WORDS, WORDS)
    table[:, :2], table[:, 3] = -50.0, -50.0
    model, streams = RepetitionFilter(Chain(table), [5, 6], ngram), {"x": noise_stream([2, 3])}
    found = [
        beam(model, streams, width, 8, num_best=width).captions,
        greedy(model, streams, 8).captions,
        sample(model, streams, 3, 8).captions,
    ]
    for caption in (caption for some in found for caption in captions_of(some)):
        grams = list(zip(*(caption[start:] for start in range(ngram)), strict=False))
        assert len(set(grams)) == len(grams)
        assert all(one != other for one, other in itertools.pairwise(caption))
        assert not (caption[-1] == EOS and len(caption) > 1 and caption[-2] in {5, 6})


def test_a_filtered_caption_has_the_score_of_the_model_itself() -> None:
    streams = {"x": noise_stream([2, 3])}
    found = beam(RepetitionFilter(stutterer(), [5]), streams, 4, 7, num_best=4, length_power=0.5)
    own = rescore(stutterer(), streams, found.captions, 0.5)
    assert torch.allclose(found.scores, own, atol=1e-5)


def test_the_filter_needs_n_grams_of_two_words_or_more() -> None:
    with pytest.raises(ValueError, match="2 or more"):
        RepetitionFilter(stutterer(), ngram=1)


def test_a_loose_end_is_cut_off() -> None:
    assert without_loose_end("a man is playing a".split()) == ("a", "man", "is", "playing")
    assert without_loose_end("a man runs".split()) == ("a", "man", "runs")
    assert without_loose_end(["a"]) == ("a",)
    assert [Vocabulary(["a", "man", "of"]).words[number] for number in never_last(Vocabulary(["a", "man", "of"]))] == [
        "a",
        "of",
    ]
    assert "around" not in NEVER_LAST


def test_words_are_written_as_people_write_them() -> None:
    assert spelled("a man 's dog does n't bark".split()) == "a man's dog doesn't bark"
    assert as_sentence("a man's dog") == "A man's dog."
    assert as_sentence("") == ""
