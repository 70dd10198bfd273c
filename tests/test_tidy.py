"""Speech without babble: what a tidy speaker makes impossible, for any search."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import noise_stream

from watchword.decoding import Tidy, beam, greedy, rescore, sample
from watchword.tensors import EOS, PAD, Memory, State, Step, Streams
from watchword.text.sentences import NEVER_LAST, as_sentence, never_last, spelled, without_loose_end
from watchword.text.vocabulary import Vocabulary

WORDS = 9  # four specials and five words


class Chain:
    """A speaker whose next word depends on the last alone: log probabilities from a table (V, V)."""

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


def sentences_of(found: torch.Tensor) -> list[list[int]]:
    return [[word for word in row if word != PAD] for row in found.flatten(0, 1).tolist()]


def is_tidy(sentence: list[int], forbidden: set[int]) -> bool:
    pairs = list(itertools.pairwise(sentence))
    ended = sentence[-1] == EOS
    return (
        len(set(pairs)) == len(pairs)
        and all(one != other for one, other in pairs)
        and not (ended and len(sentence) > 1 and sentence[-2] in forbidden)
    )


def test_a_speaker_that_stutters_does_not_when_it_is_tidy() -> None:
    streams = {"x": noise_stream([2])}
    assert sentences_of(greedy(stutterer(), streams, 6).sentences) == [[4, 5, 4, 5, 4, 5]]
    (tidy,) = sentences_of(greedy(Tidy(stutterer()), streams, 6).sentences)
    assert tidy[:3] == [4, 5, 4]  # "4 5" came once and must not come again
    assert tidy[3] != 5
    assert is_tidy(tidy, set())


def test_no_sentence_ends_in_a_word_that_must_not_be_last() -> None:
    table = torch.zeros(WORDS, WORDS)
    table[:, :2], table[:, 3] = -50.0, -50.0
    table[:, EOS] = 3.0
    table[1, 4] = 6.0  # it begins with 4 and would stop there
    streams = {"x": noise_stream([2, 3])}
    assert sentences_of(beam(Chain(table), streams, 3, 5).sentences) == [[4, EOS]] * 2
    for sentence in sentences_of(beam(Tidy(Chain(table), [4]), streams, 3, 5, num_best=3).sentences):
        assert is_tidy(sentence, {4})


@given(seed=st.integers(0, 10_000), width=st.integers(1, 4), ngram=st.integers(2, 3))
def test_whatever_the_model_every_search_is_tidy(seed: int, width: int, ngram: int) -> None:
    torch.manual_seed(seed)
    table = 3 * torch.randn(WORDS, WORDS)
    table[:, :2], table[:, 3] = -50.0, -50.0
    speaker, streams = Tidy(Chain(table), [5, 6], ngram), {"x": noise_stream([2, 3])}
    found = [
        beam(speaker, streams, width, 8, num_best=width).sentences,
        greedy(speaker, streams, 8).sentences,
        sample(speaker, streams, 3, 8).sentences,
    ]
    for sentence in (sentence for some in found for sentence in sentences_of(some)):
        grams = list(zip(*(sentence[start:] for start in range(ngram)), strict=False))
        assert len(set(grams)) == len(grams)
        assert all(one != other for one, other in itertools.pairwise(sentence))
        assert not (sentence[-1] == EOS and len(sentence) > 1 and sentence[-2] in {5, 6})


def test_a_tidy_sentence_has_the_score_that_the_speaker_itself_gives_it() -> None:
    streams = {"x": noise_stream([2, 3])}
    found = beam(Tidy(stutterer(), [5]), streams, 4, 7, num_best=4, length_power=0.5)
    own = rescore(stutterer(), streams, found.sentences, 0.5)
    assert torch.allclose(found.scores, own, atol=1e-5)


def test_repeats_of_single_words_cannot_be_forbidden() -> None:
    with pytest.raises(ValueError, match="two words"):
        Tidy(stutterer(), ngram=1)


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
