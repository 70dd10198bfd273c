"""Constraints on what a search may generate."""

from collections.abc import Sequence

import torch
from torch import Tensor

from watchword.decoding.search import StepModel
from watchword.tensors import EOS, Memory, State, Step, Streams

TOKENS = "repetition_filter.tokens"  # in the state: the tokens so far


class RepetitionFilter:
    """A step model without repetitions, for any search.

    It forbids the same word twice in a row, `ngram` words in a row that the caption already has, and EOS after a word
    of `never_final` (a caption does not end in "a" or "and"). What stays possible keeps its probability: a caption has
    the score that the model itself gives it.
    """

    def __init__(self, model: StepModel, never_final: Sequence[int] = (), ngram: int = 2) -> None:
        if ngram < 2:
            raise ValueError(f"ngram must be 2 or more, not {ngram}")
        self.model, self.ngram = model, ngram
        self.never_final = torch.tensor(sorted(never_final), dtype=torch.long)

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        memory, state = self.model.encode(streams)
        mask = next(iter(streams.values())).mask
        return memory, state | {TOKENS: torch.empty(mask.shape[0], 1, 0, dtype=torch.long, device=mask.device)}

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        tokens = torch.cat([state[TOKENS], words.unsqueeze(-1)], -1)  # (B, S, T) from BOS to the last word
        own = {name: tensor for name, tensor in state.items() if name != TOKENS}
        step = self.model.step(words, memory, own)
        log_probs = self.model.log_probabilities(step.outputs)  # (B, S, V)
        forbidden = torch.zeros_like(log_probs, dtype=torch.bool).scatter_(-1, words.unsqueeze(-1), True)
        if tokens.shape[-1] >= self.ngram:
            grams = tokens.unfold(-1, self.ngram, 1)  # (B, S, T - n + 1, n)
            # an earlier n-gram that begins with the last tokens
            repeated = (grams[..., :-1] == tokens[..., None, 1 - self.ngram :]).all(-1)
            count = torch.zeros_like(log_probs).scatter_add_(-1, grams[..., -1], repeated.to(log_probs.dtype))
            forbidden |= count > 0
        forbidden[..., EOS] = torch.isin(words, self.never_final.to(words.device))
        outputs = log_probs.masked_fill(forbidden, float("-inf"))
        return Step(outputs, step.state | {TOKENS: tokens}, step.attention)

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return outputs
