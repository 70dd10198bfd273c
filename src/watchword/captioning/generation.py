"""From streams to sentences: tidy beam search, the words' probabilities, how sure each sentence is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, isfinite

import numpy as np
import torch
from torch import Tensor

from watchword.captioning.bundle import CaptionerFolder
from watchword.captioning.confidence import Calibration, Signs, confidence, signs
from watchword.captioning.description import Sentence, Word
from watchword.captioning.diagnostics import insight
from watchword.data.dataset import evenly_chosen, pad_streams
from watchword.decoding import Ensemble, Hypotheses, RepetitionFilter, StepModel, beam, mbr_decode, teacher_force
from watchword.models.checkpoint import load_model
from watchword.tensors import EOS, PAD, Streams
from watchword.text.sentences import never_last, without_loose_end
from watchword.text.vocabulary import Vocabulary
from watchword.types import FloatArray, StreamArrays

Arrays = Mapping[str, StreamArrays]
MEMBER = re.compile(r"^\d+:")
NEVER_ENDED = -10.0  # the log probability of an end that did not come


@dataclass(frozen=True)
class Stretch:
    """Some seconds of a film as streams, whose times count from its start."""

    start: float
    end: float
    arrays: Arrays


@dataclass(frozen=True)
class _Draft:
    place: int                # among the sentences found
    words: tuple[str, ...]
    log_probs: list[float]    # of the words, and of the end
    score: float              # the search's


@dataclass(frozen=True)
class Thought:
    """A sentence before it is said, and the signs of how good it is."""

    sentence: Sentence
    signs: Signs


class Voice:
    """A captioner that speaks about streams, wherever they come from."""

    def __init__(
        self, speaker: StepModel, vocabulary: Vocabulary, streams: Sequence[str], moments: int | None, max_words: int,
        length_power: float = 0.5, votes: int = 0, calibration: Calibration | None = None,
    ) -> None:  # fmt: skip
        self.speaker, self.vocabulary = speaker, vocabulary
        self.streams, self.moments, self.max_words = tuple(streams), moments, max_words
        self.length_power, self.votes, self.calibration = length_power, votes, calibration
        self.tidy = RepetitionFilter(speaker, never_last(vocabulary))

    @classmethod
    def load(cls, folder: CaptionerFolder) -> "Voice":
        recipe, vocabulary = folder.recipe, folder.vocabulary
        models = [load_model(path, vocabulary) for path in folder.weights]
        speaker: StepModel = models[0] if len(models) == 1 else Ensemble(models)
        return cls(
            speaker, vocabulary, recipe.data.streams, recipe.data.max_time_steps, recipe.data.max_words,
            recipe.selection.length_power, recipe.selection.mbr_samples, Calibration.load(folder.folder),
        )  # fmt: skip

    @torch.inference_mode()
    def think(self, stretches: Sequence[Stretch], width: int = 5, top: int = 1) -> list[list[Thought]]:
        """For each stretch of film up to `top` different sentences, the best first."""
        chosen = [self.chosen(stretch) for stretch in stretches]
        streams = {stream: pad_streams([one[stream] for one in chosen]) for stream in self.streams}
        found = self._search(streams, width, top)
        followed = teacher_force(self.speaker, streams, found.captions, keep_attention=True)
        log_probs = self.speaker.log_probabilities(followed.outputs)
        said = log_probs.gather(-1, found.captions.unsqueeze(-1)).squeeze(-1)  # (B, S, T)
        attention = _by_head(followed.attention)
        answers = []
        for row, stretch in enumerate(stretches):
            drafts = self._drafts(found.captions[row], found.scores[row], said[row])
            looks = {name: weights[row] for name, weights in attention.items() if stream_of(name) in self.streams}
            answers.append(self._thoughts(drafts, looks, chosen[row], stretch.start)[:top])
        return answers

    def chosen(self, stretch: Stretch) -> dict[str, StreamArrays]:
        """The moments that the captioner reads."""
        return {stream: evenly_chosen(stretch.arrays[stream], self.moments) for stream in self.streams}

    @torch.inference_mode()
    def with_insight(self, sentence: Sentence, stretch: Stretch) -> Sentence:
        """With what the model tells beyond attention of how it came to it: key frames, layers, ways of looking."""
        streams = {stream: pad_streams([arrays]) for stream, arrays in self.chosen(stretch).items()}
        words = torch.tensor([[self.vocabulary.encode([word.text for word in sentence.words])]])  # (1, 1, T)
        marks, bars = insight(self.speaker, streams, words)
        marks = tuple(replace(mark, seconds=mark.seconds + stretch.start) for mark in marks)
        return replace(sentence, marks=marks, bars=bars)

    def _search(self, streams: Streams, width: int, top: int) -> Hypotheses:
        """A few more than asked for: two may be the same once loose ends are gone.

        Where sentences vote, on twice as many as `evaluate` lets stand: more to choose from paid (docs/results.md).
        """
        width, most, power = max(width, top), self.max_words + 1, self.length_power
        if self.votes:
            found = mbr_decode(
                self.tidy, streams, self.votes, most,
                beams=2 * width, length_power=power, content=self.vocabulary.content,
            )  # fmt: skip
        else:
            found = beam(self.tidy, streams, width, most, num_best=min(2 * top, width), length_power=power)
        sentences = found.captions[:, : 2 * top]
        longest = int((sentences != PAD).sum(-1).max())
        return Hypotheses(sentences[..., :longest], found.scores[:, : 2 * top])

    def _drafts(self, sentences: Tensor, scores: Tensor, said: Tensor) -> list[_Draft]:
        """Different sentences in the order of the search. One that never ended loses its loose end."""
        drafts: dict[tuple[str, ...], _Draft] = {}
        for place, (numbers, score, log_probs) in enumerate(
            zip(sentences.tolist(), scores.tolist(), said.tolist(), strict=True)
        ):
            length = sum(number != PAD for number in numbers)
            words = without_loose_end(self.vocabulary.decode(numbers))
            if isfinite(score) and words:
                ending = [] if EOS in numbers else [NEVER_ENDED]
                draft = _Draft(place, words, log_probs[:length] + ending, score)
                drafts.setdefault(words, draft)
        return list(drafts.values())

    def _thoughts(
        self, drafts: Sequence[_Draft], looks: Mapping[str, Tensor], arrays: Arrays, start: float
    ) -> list[Thought]:
        thoughts: list[Thought] = []
        for draft in drafts:
            found = signs(draft.log_probs, draft.score if self.votes else None)
            sure = confidence(self.calibration, found)
            if thoughts:  # the search preferred the one before: an alternative is never surer
                sure = min(sure, thoughts[-1].sentence.confidence)
            attention = {
                name: _real_part(weights[draft.place, : len(draft.words)], arrays[stream_of(name)])
                for name, weights in looks.items()
            }
            words = tuple(
                Word(word, exp(draft.log_probs[index]), _seconds(attention, arrays, index, start))
                for index, word in enumerate(draft.words)
            )
            thoughts.append(Thought(Sentence(words, sure, attention), found))
        return thoughts


def _by_head(attention: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The members of an ensemble (`0:appearance`, `1:appearance`) look together: their mean."""
    members: dict[str, list[Tensor]] = {}
    for name, weights in attention.items():
        members.setdefault(MEMBER.sub("", name), []).append(weights)
    return {name: torch.stack(weights).mean(0) for name, weights in members.items()}


def stream_of(head: str) -> str:
    """`local:regions` is an attention over the stream regions."""
    return head.rpartition(":")[2]


def _real_part(weights: Tensor, arrays: StreamArrays) -> FloatArray:
    """(T, F, N) without what only pads the batch; of a stream without moments, one place for nothing.

    A copy: a view would keep what all sentences looked at in memory for as long as the film's timeline grows.
    """
    moments, places = (max(1, size) for size in arrays.values.shape[:2])
    return np.asarray(weights[:, :moments, :places]).copy()


def _seconds(attention: Mapping[str, FloatArray], arrays: Arrays, word: int, start: float) -> dict[str, float]:
    """When each head looked most, for one word; nothing for a stream that has no moments."""
    return {
        name: start + float(arrays[stream_of(name)].times[weights[word].sum(-1).argmax()])
        for name, weights in attention.items()
        if len(arrays[stream_of(name)].times)
    }
