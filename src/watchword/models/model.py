"""The contract of a model: `encode` the videos once, `step` once a word. Everything else is written outside."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Self

from pydantic import Field, model_validator
from torch import Tensor, nn

from watchword.config import Settings
from watchword.layers.projection import WordProjection
from watchword.tensors import BOS, PAD, UNK, Memory, State, Step, Streams, at_least_float32

NEVER_SAID = (PAD, BOS, UNK)
LARGEST_SIZE = 16_384  # of a layer: a recurrent layer of this size has a billion weights


class ModelConfig(Settings):
    """What every model has. Widths of the streams and the vocabulary's size come from the data."""

    embedding_size: int = Field(300, ge=1)
    hidden_size: int = Field(512, ge=1)
    dropout: float = Field(0.5, ge=0, lt=1)  # on words, projected features and outputs
    feature_dropout: float = Field(0.0, ge=0, lt=1)  # on the features as they come

    @model_validator(mode="after")
    def sizes_that_fit_a_machine(self) -> Self:
        for name, value in self:
            if name.endswith("_size") and isinstance(value, int) and value > LARGEST_SIZE:
                raise ValueError(f"{name} = {value}: at most {LARGEST_SIZE}")
        return self


class Model(nn.Module, ABC):
    """Videos in, words out.

    `widths` says which streams the model reads and how wide they are. `Step.outputs` is what the vocabulary
    projection reads: training applies it once to all words of all captions, decoding once a step.
    """

    Config: type[ModelConfig] = ModelConfig

    def __init__(self, config: ModelConfig, widths: Mapping[str, int], num_words: int, output_size: int) -> None:
        super().__init__()
        self.config = config
        self.widths = dict(widths)
        self.num_words = num_words
        self.embedding = nn.Embedding(num_words, config.embedding_size, padding_idx=PAD)
        self.to_words = WordProjection(output_size, num_words, NEVER_SAID)
        # What a recurrent cell shows is small at first (0.07 after G2L's second layer) and torch's own start is smaller
        # still: words would hardly tell the layers below what to change. docs/results.md
        nn.init.normal_(self.to_words.weight, std=2 * output_size**-0.5)

    @abstractmethod
    def encode(self, streams: Streams) -> tuple[Memory, State]:
        """What is kept of the videos, tensors (B, ...), and the state before the first word, tensors (B, 1, ...)."""

    @abstractmethod
    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        """One word further: words (B, S) are the last words."""

    def logits(self, outputs: Tensor) -> Tensor:
        """(..., H) -> (..., V). PAD, BOS and UNK have probability 0 in training and in decoding alike."""
        logits: Tensor = self.to_words(outputs)
        return logits

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return at_least_float32(self.logits(outputs)).log_softmax(-1)
