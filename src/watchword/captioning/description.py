"""What `watchword.describe` returns: nouns for people, over numpy, without a network."""

from dataclasses import dataclass, field
from pathlib import Path

from watchword.explain.attention import Bars, Mark
from watchword.text.sentences import spelled
from watchword.types import FloatArray


@dataclass(frozen=True)
class Word:
    """A word of a sentence: how likely it was after the words before it, and when in the film it was read off."""

    text: str
    probability: float
    seconds: dict[str, float] = field(default_factory=dict)  # head -> the moment with most attention


@dataclass(frozen=True)
class Sentence:
    """One thing to say about a stretch of film.

    A head is one attention: a stream's name, or `local:regions` where a model looks at a stream in a way of its own.
    """

    words: tuple[Word, ...]
    confidence: float                 # 0..1
    attention: dict[str, FloatArray] = field(default_factory=dict)  # head -> (T, F, N), a distribution for each word
    marks: tuple[Mark, ...] = ()      # moments that the model chose: key frames
    bars: tuple[Bars, ...] = ()       # balances that it struck for each word: layers, ways of looking

    @property
    def text(self) -> str:
        return spelled(word.text for word in self.words)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Looked:
    """When and where a stream looked: what attention is drawn with."""

    times: FloatArray                 # (F,) seconds of the film
    boxes: FloatArray                 # (N, 4) or (F, N, 4): x0 y0 x1 y1, 0..1 of the picture


@dataclass(frozen=True)
class Shot:
    """A stretch of film and what can be said about it, the best first."""

    start: float                      # seconds
    end: float
    sentences: tuple[Sentence, ...]
    looked: dict[str, Looked] = field(default_factory=dict)  # stream -> its moments and places

    @property
    def best(self) -> Sentence:
        return self.sentences[0]


@dataclass(frozen=True)
class Description:
    """A film and what was said about it: one shot when it was described whole, several when it is a timeline."""

    film: Path
    seconds: float
    captioner: str
    shots: tuple[Shot, ...]
    warnings: tuple[str, ...] = ()    # damage: what is good of the film was described

    @property
    def best(self) -> Sentence | None:
        """Of a timeline, the surest sentence; None where nothing was sure enough to be said."""
        return max((shot.best for shot in self.shots), key=lambda sentence: sentence.confidence, default=None)

    @property
    def sentence(self) -> str:
        return self.best.text if self.best else ""

    @property
    def confidence(self) -> float:
        return self.best.confidence if self.best else 0.0

    @property
    def alternatives(self) -> tuple[Sentence, ...]:
        """What else could be said, of a film that was described whole."""
        return self.shots[0].sentences[1:] if len(self.shots) == 1 else ()

    @property
    def attention(self) -> dict[str, FloatArray]:
        """Head -> (words, moments, places) of the sentence."""
        return self.best.attention if self.best else {}

    def __str__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        from watchword.captioning.html import as_html

        return as_html(self)
