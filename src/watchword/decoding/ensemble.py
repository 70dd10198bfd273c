"""Several models with one vocabulary decoded as one."""

from collections.abc import Sequence
from functools import reduce
from math import log

import torch
from torch import Tensor

from watchword.decoding.search import StepModel
from watchword.tensors import Memory, State, Step, Streams


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
