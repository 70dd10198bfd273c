"""Information Loss: words that are specific to a video weigh more.

Dong et al., Not All Words are Equal: Video-specific Information Loss for Video Captioning, BMVC 2018, arXiv:1901.00097,
Sec. 3.4.

| equation | line |
|---|---|
| 5, cross entropy | `CrossEntropy`, which this is with `trade_off = 0`, exactly |
| 6, relevance R(y|V) = captions of V with y / captions of V | `relevance` |
| 7, information content I(y) = -log(videos with y / videos), training videos | `content` |
| f(y, V) = R(y|V) ** gamma * I(y) | `importances` |
| 8, (1 + lambda f(y, V)) * -log p(y) | `weighed` |

Rules where the paper is silent: a word counts once in a caption however often it says it, and weighs the same each
time; EOS ends every caption of every video, so R = 1, I = 0 and its weight is 1 by the formula (as is that of any word
said of all videos); UNK is never a target here (`CrossEntropy`), so the words under it have no weight. The sum
of the weights is not divided out (Eq. 8 is a sum): the gradient grows with lambda.
"""

import random
from collections.abc import Mapping
from math import log

import torch
from pydantic import Field
from torch import Tensor

from watchword.errors import WatchwordError
from watchword.losses.objective import CrossEntropy, CrossEntropySettings, Material
from watchword.tensors import UNK, Batch
from watchword.text.vocabulary import WordCounts, videos_with


class InformationSettings(CrossEntropySettings):
    gamma: float = Field(2.0, ge=0)  # Sec. 4.2: how much the relevance counts beside the information content
    trade_off: float = Field(0.5, ge=0)  # Sec. 4.2, lambda
    permute: bool = False  # ours, as a control: every video has the importances of another, drawn at random


class Information(CrossEntropy):
    """The mean negative log probability of a word, each times 1 + lambda * its importance for the video (Eq. 8)."""

    Settings = InformationSettings
    keys: Tensor
    importance: Tensor

    def __init__(self, settings: InformationSettings, material: Material) -> None:
        super().__init__(settings)
        self.trade_off = settings.trade_off
        self.num_words = len(material.vocabulary)
        self.number = {video: number for number, video in enumerate(material.references)}
        found = importances(material.word_counts, settings.gamma)
        if settings.permute:
            # not the next in the file: clips of one source stand side by side there and share their words
            videos = random.Random(0).sample(list(found), len(found))
            found = {video: found[other] for video, other in zip(videos, [*videos[1:], videos[0]], strict=True)}
        # a sorted list of (video, word) keys: a table of all videos and all words would be a thousand times as big
        table = {
            self.number[video] * self.num_words + number: value
            for video, own in found.items()
            for number, value in zip(material.vocabulary.encode(own), own.values(), strict=True)
            if number != UNK
        }
        keys = sorted(table)
        self.register_buffer("keys", torch.tensor(keys), persistent=False)  # the data says it again: not kept
        self.register_buffer("importance", torch.tensor([table[index] for index in keys]), persistent=False)

    def weighed(self, losses: Tensor, words: Tensor, video: Tensor, batch: Batch) -> Tensor:
        return (1 + self.trade_off * self.of_words(words, video, batch)) * losses  # Eq. 8

    def of_words(self, words: Tensor, video: Tensor, batch: Batch) -> Tensor:
        """f(y, V) of words (M,) said of these videos of the batch, (M,); 0 for a word in none of its captions."""
        strange = [video for video in batch.videos if video not in self.number]
        if strange:
            raise WatchwordError(f"information loss has no captions of {strange[0]!r}: it weighs training videos only")
        videos = torch.tensor([self.number[video] for video in batch.videos], device=words.device)
        wanted = videos[video] * self.num_words + words
        index = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        return self.importance[index] * (self.keys[index] == wanted)


def importances(counts: Mapping[str, WordCounts], gamma: float) -> dict[str, dict[str, float]]:
    """Video -> word -> f(y, V), for every word of its captions."""
    content = {word: log(len(counts) / videos) for word, videos in videos_with(counts).items()}  # Eq. 7: I(y)
    found = {}
    for video, own in counts.items():
        relevance = {word: captions / own.num_captions for word, captions in own.captions.items()}  # Eq. 6: R(y|V)
        found[video] = {word: relevance[word] ** gamma * content[word] for word in relevance}
    return found
