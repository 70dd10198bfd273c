"""Step models made of others: a filter around one, an ensemble of several."""

from collections.abc import Sequence
from functools import reduce
from math import log

import torch
from torch import Tensor, nn

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
        outputs = self.model.log_probabilities(step.outputs)  # (B, S, V)
        forbidden = words.unsqueeze(-1)
        if tokens.shape[-1] >= self.ngram:
            grams = tokens.unfold(-1, self.ngram, 1)  # (B, S, T - n + 1, n)
            # an earlier n-gram that begins with the last tokens
            repeated = (grams[..., :-1] == tokens[..., None, 1 - self.ngram :]).all(-1)
            forbidden = torch.where(repeated, grams[..., -1], forbidden)
        outputs = outputs.scatter(-1, forbidden, float("-inf"))
        never_final = torch.isin(words, self.never_final.to(words.device))
        outputs[..., EOS].masked_fill_(never_final, float("-inf"))
        return Step(outputs, step.state | {TOKENS: tokens}, step.attention)

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return outputs


# --- ensembles -------------------------------------------------------------------------------------------------------


class Ensemble:
    """A step model whose probabilities are the mean of those of its members."""

    def __init__(self, models: Sequence[StepModel]) -> None:
        self.models = tuple(models)

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        memory: Memory = {}
        state: State = {}
        for number, model in enumerate(self.models):
            own_memory, own_state = model.encode(streams)
            memory |= {f"{number}:{name}": tensor for name, tensor in own_memory.items()}
            state |= {f"{number}:{name}": tensor for name, tensor in own_state.items()}
        return memory, state

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        new: State = {}
        attention: dict[str, Tensor] = {}
        log_probs = []
        for number, model in enumerate(self.models):
            step = model.step(words, _own(memory, number), _own(state, number))
            log_probs.append(model.log_probabilities(step.outputs))
            new |= {f"{number}:{name}": tensor for name, tensor in step.state.items()}
            attention |= {f"{number}:{name}": tensor for name, tensor in step.attention.items()}
        return Step(reduce(torch.logaddexp, log_probs) - log(len(log_probs)), new, attention)

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return outputs


def _own(tensors: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    prefix = f"{number}:"
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def networks(model: StepModel) -> list[nn.Module]:
    """The networks that a step model is made of."""
    if isinstance(model, Ensemble):
        return [network for member in model.models for network in networks(member)]
    return [model] if isinstance(model, nn.Module) else []
