"""Sentences for the videos of a split, and what they score."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from watchword.data.dataset import CaptionData
from watchword.decoding import Found, Speaker, beam, greedy
from watchword.losses import CrossEntropy, CrossEntropySettings, Talker
from watchword.metrics import ReferenceIndex, Scores
from watchword.records import Caption, Clip
from watchword.tensors import Batch

VIDEOS_AT_ONCE = 32


@dataclass(frozen=True)
class Search:
    """How sentences are looked for."""

    beam: int = 5
    length_power: float = 0.0   # score = log probability / words ** length_power
    max_words: int = 20

    def __call__(self, speaker: Speaker, batch: Batch) -> Found:
        if self.beam == 1:
            return greedy(speaker, batch.streams, self.max_words)
        return beam(speaker, batch.streams, self.beam, self.max_words, length_power=self.length_power)


@torch.no_grad()
def caption_videos(
    speaker: Speaker,
    data: CaptionData,
    search: Search,
    device: torch.device | str = "cpu",
    report: Callable[[int], None] = lambda done: None,
) -> list[Caption]:
    """The best sentence for every video of the data, in order; `report` hears how many are done."""
    captions: list[Caption] = []
    for batch in data.videos(VIDEOS_AT_ONCE):
        found = search(speaker, batch.to(device))
        for video, sentence, score in zip(batch.videos, found.sentences[:, 0], found.scores[:, 0], strict=True):
            captions.append(Caption(video, tuple(data.vocabulary.decode(sentence.tolist())), float(score)))
        report(len(captions))
    return captions


def references_of(clips: Sequence[Clip]) -> dict[str, Sequence[str]]:
    return {clip.video: clip.captions for clip in clips}


def score_captions(captions: Sequence[Caption], index: ReferenceIndex, metrics: Sequence[str]) -> Scores:
    hypotheses: Mapping[str, str] = {caption.video: caption.text for caption in captions}
    return index.score(hypotheses, metrics)


@torch.no_grad()
def mean_word_loss(model: Talker, data: CaptionData, device: torch.device | str) -> float:
    """Cross entropy per word on a split: it separates recipes where the scores of few videos are noise."""
    measure = CrossEntropy(CrossEntropySettings())
    total = weight = 0.0
    for slot in data.plan(seed=(0,)):
        loss = measure(model, data.batch(slot).to(device), own_words=0.0)
        total, weight = total + float(loss.total), weight + float(loss.weight)
    return total / weight
