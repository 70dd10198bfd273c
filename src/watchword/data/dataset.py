"""Clips, features and words -> batches. Padding and masks are made here and nowhere else.

A batch has two axes, B videos and S sentences of each: the features of a video are read, padded and projected once for
its S sentences. Sentences of like length are put together, so that little of a batch is padding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from watchword.config import Data
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.tensors import BOS, EOS, PAD, Batch, Stream, Streams
from watchword.text.vocabulary import Vocabulary
from watchword.types import Clip, StreamArrays, evenly

# How far, in words, a sentence may stand from its place in the order of lengths: the batches of two epochs differ.
LENGTH_JITTER = 1.0


@dataclass(frozen=True)
class Group:
    """Some sentences of one video."""

    video: int                    # row in the data set
    sentences: tuple[int, ...]    # rows among the video's sentences


@dataclass(frozen=True)
class Slot:
    """The groups that make one batch."""

    groups: tuple[Group, ...]

    def share(self, rank: int, world: int) -> "Slot":
        """Every world-th group: what one of several processes computes of the batch. Nobody gets nothing."""
        return Slot(self.groups[rank::world] or (Group(self.groups[0].video, ()),))


class CaptionData:
    """One split, ready to be batched."""

    def __init__(self, clips: Sequence[Clip], store: Store, vocabulary: Vocabulary, settings: Data) -> None:
        self.clips = tuple(clips)
        self.vocabulary = vocabulary
        self.settings = settings
        self.features = Features(store, settings)
        self.features.check([clip.video for clip in clips])
        self.sentences = [encode_captions(clip.captions, vocabulary, settings.max_words) for clip in clips]
        if not self.num_sentences:
            raise WatchwordError(f"no caption of the {clips[0].split} videos has a word: nothing can be learned")

    def __len__(self) -> int:
        return len(self.clips)

    @property
    def num_sentences(self) -> int:
        return sum(len(sentences) for sentences in self.sentences)

    @property
    def num_words(self) -> int:
        """Words that are predicted in an epoch, EOS among them."""
        return sum(len(sentence) - 1 for sentences in self.sentences for sentence in sentences)

    def plan(self, seed: Sequence[int]) -> list[Slot]:
        """The batches of an epoch: every sentence once. A pure function of the seed, so an epoch can be resumed."""
        random = np.random.default_rng(seed)
        size, per_video = self.settings.videos_per_batch, self.settings.captions_per_video
        groups: list[Group] = []
        lengths: list[float] = []
        for video, sentences in enumerate(self.sentences):
            wanted = np.array([len(sentence) for sentence in sentences], float)
            order = np.argsort(wanted + random.uniform(0, LENGTH_JITTER, len(wanted)), kind="stable")
            for start in range(0, len(order), per_video):
                rows = order[start : start + per_video]
                groups.append(Group(video, tuple(int(row) for row in rows)))
                lengths.append(wanted[rows].max())
        order = np.argsort(np.array(lengths) + random.uniform(0, LENGTH_JITTER, len(lengths)), kind="stable")
        slots = [
            Slot(tuple(groups[row] for row in order[start : start + size])) for start in range(0, len(order), size)
        ]
        return [slots[row] for row in random.permutation(len(slots))]

    def plan_videos(self, seed: Sequence[int]) -> list[Slot]:
        """The batches of an epoch that visits every video once, with some of its sentences."""
        random = np.random.default_rng(seed)
        size, per_video = self.settings.videos_per_batch, self.settings.captions_per_video
        groups = []
        for video in random.permutation(len(self.sentences)):
            chosen = random.permutation(len(self.sentences[video]))[:per_video]
            groups.append(Group(int(video), tuple(int(row) for row in chosen)))
        return [Slot(tuple(groups[start : start + size])) for start in range(0, len(groups), size)]

    def batch(self, slot: Slot) -> Batch:
        videos = tuple(self.clips[group.video].video for group in slot.groups)
        chosen = [[self.sentences[group.video][row] for row in group.sentences] for group in slot.groups]
        sentences = pad_sentences(chosen)
        rows = torch.full(sentences.shape[:2], -1)
        for place, group in enumerate(slot.groups):
            rows[place, : len(group.sentences)] = torch.tensor(group.sentences)
        return Batch(videos, self.features.read(videos), sentences, rows)

    @property
    def videos(self) -> list[str]:
        return [clip.video for clip in self.clips]


class Features:
    """Streams of videos as padded, masked tensors; all of them empty where a captioner learns words alone."""

    def __init__(self, store: Store, settings: Data) -> None:
        self.store = store
        self.moments = settings.moments
        self.is_blind = settings.blind
        self.streams, self.required = settings.streams, settings.required_streams
        self.present = {stream: set(store.videos(stream)) for stream in settings.optional_streams}
        self.widths = {stream: store.width(stream) for stream in settings.streams}

    def described(self) -> dict[str, str]:
        """Of each stream its width and the key of the settings that made it."""
        keys = {stream: ",".join(self.store.keys(stream)) for stream in self.streams}
        return {stream: f"{width} numbers, settings {keys[stream]}" for stream, width in self.widths.items()}

    def coverage(self, videos: Sequence[str]) -> str:
        """Of the streams that a video may lack, how many videos have each."""
        return ", ".join(f"{stream} of {sum(v in there for v in videos):,}" for stream, there in self.present.items())

    def check(self, videos: Sequence[str]) -> None:
        """Says before the first batch, in one line, what is missing."""
        for stream in () if self.is_blind else self.required:
            there = set(self.store.videos(stream))
            missing = [video for video in videos if video not in there]
            if missing:
                raise WatchwordError(
                    f"the store {self.store.folder} lacks {stream} of {len(missing):,} of {len(videos):,} videos, "
                    f"{missing[0]!r} the first: bring them in with watchword features import, or drop their captions"
                )

    def read(self, videos: Sequence[str]) -> dict[str, Stream]:
        return {stream: pad_streams([self._arrays(video, stream) for video in videos]) for stream in self.streams}

    def arrays(self, video: str) -> dict[str, StreamArrays]:
        """All streams of one video, those that it lacks empty."""
        return {stream: self._arrays(video, stream) for stream in self.streams}

    def _arrays(self, video: str, stream: str) -> StreamArrays:
        if self.is_blind:
            return empty_stream(self.widths[stream], moments=1)  # one zero vector
        if stream in self.present and video not in self.present[stream]:
            return empty_stream(self.widths[stream])
        return evenly_chosen(self.store.read(video, stream), self.moments)

    def batches(self, videos: Sequence[str], size: int) -> Iterator[Batch]:
        """Videos without sentences, in order: what decoding reads."""
        for start in range(0, len(videos), size):
            names = tuple(videos[start : start + size])
            yield Batch(names, self.read(names), torch.zeros(len(names), 0, 1, dtype=torch.long))


def empty_stream(width: int, moments: int = 0) -> StreamArrays:
    """The stream of a video that lacks it; with `moments`, zeros that count as real."""
    return StreamArrays(np.zeros((moments, 1, width), np.float16), np.zeros(moments), np.zeros((1, 4)))


def evenly_chosen(arrays: StreamArrays, moments: int | None) -> StreamArrays:
    """Evenly chosen moments of a stream that has more than were asked for."""
    if moments is None or len(arrays.times) <= moments:
        return arrays
    rows = evenly(len(arrays.times), moments)
    boxes = arrays.boxes[rows] if arrays.boxes.ndim == 3 else arrays.boxes
    mask = None if arrays.mask is None else arrays.mask[rows]
    return StreamArrays(arrays.values[rows], arrays.times[rows], boxes, mask, arrays.provenance)


def pad_streams(arrays: Sequence[StreamArrays]) -> Stream:
    """Videos of different lengths side by side. A video that lacks the stream gets a mask that is all False."""
    videos = len(arrays)
    moments = max(1, *(one.values.shape[0] for one in arrays))
    places = max(1, *(one.values.shape[1] for one in arrays))
    values = np.zeros((videos, moments, places, arrays[0].values.shape[2]), np.float32)
    mask = np.zeros((videos, moments, places), bool)
    times = np.zeros((videos, moments), np.float32)
    boxes = np.zeros((videos, moments, places, 4), np.float32)
    for row, one in enumerate(arrays):
        frames, regions = one.values.shape[:2]
        mask[row, :frames, :regions] = True if one.mask is None else one.mask
        values[row, :frames, :regions] = one.values
        values[row, ~mask[row]] = 0
        times[row, :frames] = one.times
        boxes[row, :frames, :regions] = one.boxes
    return Stream(*(torch.from_numpy(array) for array in (values, mask, times, boxes)))


def glimpse(streams: Streams, share: float) -> dict[str, Stream]:
    """A random share of each video's moments, in their order: what training sees of a film this time."""
    return {name: _glimpse(stream, share) for name, stream in streams.items()}


def _glimpse(stream: Stream, share: float) -> Stream:
    real = stream.mask.any(-1)  # (B, F)
    wanted = (real.sum(-1) * share).ceil().long()  # (B,): none only where there is none
    drawn = torch.rand(real.shape, device=real.device).masked_fill(~real, 2.0)
    chosen = drawn.argsort(-1).argsort(-1) < wanted.unsqueeze(-1)
    most = max(1, int(wanted.max()))
    rows = (~chosen).int().argsort(dim=-1, stable=True)[:, :most]  # the chosen ones first, in their order
    video = torch.arange(len(rows), device=rows.device).unsqueeze(-1)
    mask = stream.mask[video, rows] & chosen[video, rows].unsqueeze(-1)
    return Stream(stream.values[video, rows], mask, stream.times[video, rows], stream.boxes[video, rows])


def encode_captions(captions: Sequence[str], vocabulary: Vocabulary, max_words: int) -> list[NDArray[Any]]:
    """BOS, words, EOS for every caption. One that is cut has no EOS: nobody ended it there."""
    from watchword.text.ptb import tokenise  # its rules take 0.15 s to compile, and describing films needs none

    encoded = []
    for words in tokenise(captions, context="line"):
        if words:  # a caption of punctuation alone says nothing
            ending = [EOS] if len(words) <= max_words else []
            encoded.append(np.array([BOS, *vocabulary.encode(words[:max_words]), *ending], np.int64))
    return encoded


def pad_sentences(sentences: Sequence[Sequence[NDArray[Any]]]) -> torch.Tensor:
    """(B, S, T); videos with fewer sentences get empty ones."""
    most = max(len(own) for own in sentences)
    longest = max((len(sentence) for own in sentences for sentence in own), default=2)
    padded = np.full((len(sentences), max(most, 1), longest), PAD, np.int64)
    for row, own in enumerate(sentences):
        for column, sentence in enumerate(own):
            padded[row, column, : len(sentence)] = sentence
    return torch.from_numpy(padded)


def build_vocabulary(clips: Sequence[Clip], min_count: int) -> Vocabulary:
    """The words of the training captions."""
    from watchword.text.ptb import tokenise

    sentences = iter(tokenise([caption for clip in clips for caption in clip.captions], context="line"))
    return Vocabulary.build([list(islice(sentences, len(clip.captions))) for clip in clips], min_count)
