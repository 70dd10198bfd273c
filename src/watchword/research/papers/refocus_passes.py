"""Both looks of a captioner that watches twice: what it said after each, and which frame it turned to in between."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from watchword.data.dataset import Features
from watchword.errors import WatchwordError
from watchword.models import Captioner
from watchword.models.refocus import Refocus
from watchword.tensors import Memory, State, Step, Streams
from watchword.text.vocabulary import Vocabulary
from watchword.training.evaluation import VIDEOS_AT_ONCE, Search, caption_videos
from watchword.types import Caption, FloatArray


@dataclass(frozen=True)
class Looks:
    """One video, watched twice."""

    video: str
    times: FloatArray        # (F,) seconds of its frames
    middle: int              # the key frame of the first look
    key: int                 # the key frame of the second
    relevance: FloatArray    # (F,) alpha
    first: Caption
    second: Caption          # with attention (T, F, N)


@dataclass(frozen=True)
class OneLook:
    """The captioner as if it had looked once (0), or twice (1)."""

    model: Refocus
    look: int

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        memory, states, _, _ = self.model.encode_passes(streams)
        return memory, {name: tensor[:, self.look : self.look + 1] for name, tensor in states.items()}

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        return self.model.step(words, memory, state)

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return self.model.log_probabilities(outputs)


@torch.no_grad()
def look_twice(
    model: Captioner,
    features: Features,
    videos: Sequence[str],
    vocabulary: Vocabulary,
    search: Search,
    report: Callable[[int], None] = lambda done: None,
) -> list[Looks]:
    """Key frames and sentences of both looks, in order; `report` hears how many videos are done."""
    if not isinstance(model, Refocus) or int(model.passes) != 2:
        raise WatchwordError("this run looks once: key frames are chosen by refocus, variant vre, after first_look")
    found: list[Looks] = []
    for start in range(0, len(videos), VIDEOS_AT_ONCE):
        names = videos[start : start + VIDEOS_AT_ONCE]
        streams = features.read(names)
        _, _, relevance, key = model.encode_passes(streams)
        middle = model.middle_frames(streams)
        first, second = (
            caption_videos(OneLook(model, look), features, names, vocabulary, search, keep_attention=look == 1)
            for look in (0, 1)
        )
        for row, video in enumerate(names):
            length = int(streams[model.temporal].mask[row].any(-1).nonzero().max()) + 1
            found.append(Looks(
                video, np.asarray(streams[model.temporal].times[row, :length]), int(middle[row]), int(key[row]),
                np.asarray(relevance[row, :length].exp()), first[row], second[row],
            ))  # fmt: skip
        report(len(found))
    return found
