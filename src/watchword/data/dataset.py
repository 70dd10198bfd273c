"""Clips, features and words -> batches. Padding and masks are made here and nowhere else.

A batch has two axes, B videos and S captions of each: the features of a video are read, padded and projected once for
its S captions. Captions of like length are put together, so that little of a batch is padding.
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

# How far, in words, a caption may stand from its rank in the order of lengths: the batches of two epochs differ.
LENGTH_JITTER = 1.0


@dataclass(frozen=True)
class Group:
    """Some captions of one video."""

    video: int  # row in the data set
    captions: tuple[int, ...]  # rows among the video's captions


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
        self.captions = [encode_captions(clip.captions, vocabulary, settings.max_words) for clip in clips]
        if not self.num_captions:
            raise WatchwordError(f"no caption of the {clips[0].split} videos has a word: nothing can be learned")

    def __len__(self) -> int:
        return len(self.clips)

    @property
    def num_captions(self) -> int:
        return sum(len(captions) for captions in self.captions)

    @property
    def num_words(self) -> int:
        """Words that are predicted in an epoch, EOS among them."""
        return sum(len(caption) - 1 for captions in self.captions for caption in captions)

    def plan(self, seed: Sequence[int]) -> list[Slot]:
        """The batches of an epoch: every caption once. A pure function of the seed, so an epoch can be resumed."""
        random = np.random.default_rng(seed)
        size, per_video = self.settings.videos_per_batch, self.settings.captions_per_video
        groups: list[Group] = []
        lengths: list[float] = []
        for video, captions in enumerate(self.captions):
            wanted = np.array([len(caption) for caption in captions], float)
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
        """The batches of an epoch that visits every video once, with some of its captions."""
        random = np.random.default_rng(seed)
        size, per_video = self.settings.videos_per_batch, self.settings.captions_per_video
        groups = []
        for video in random.permutation(len(self.captions)):
            chosen = random.permutation(len(self.captions[video]))[:per_video]
            groups.append(Group(int(video), tuple(int(row) for row in chosen)))
        return [Slot(tuple(groups[start : start + size])) for start in range(0, len(groups), size)]

    def batch(self, slot: Slot) -> Batch:
        videos = tuple(self.clips[group.video].video for group in slot.groups)
        chosen = [[self.captions[group.video][row] for row in group.captions] for group in slot.groups]
        captions = pad_captions(chosen)
        rows = torch.full(captions.shape[:2], -1)
        for index, group in enumerate(slot.groups):
            rows[index, : len(group.captions)] = torch.tensor(group.captions)
        return Batch(videos, self.features.read(videos), captions, rows)

    @property
    def videos(self) -> list[str]:
        return [clip.video for clip in self.clips]


class Features:
    """Streams of videos as padded, masked tensors; all of them empty where a captioner learns words alone."""

    def __init__(self, store: Store, settings: Data) -> None:
        self.store = store
        self.max_time_steps = settings.max_time_steps
        self.text_only = settings.text_only
        self.streams, self.required = settings.streams, settings.required_streams
        self.present = {stream: set(store.videos(stream)) for stream in settings.optional_streams}
        self.widths = {stream: store.width(stream) for stream in settings.streams}

    def keys(self) -> dict[str, str]:
        """Of each stream the key of the settings that made it."""
        return {stream: ",".join(self.store.keys(stream)) for stream in self.streams}

    def described(self) -> dict[str, str]:
        """Of each stream its width and the key of the settings that made it, for people."""
        keys = self.keys()
        return {stream: f"{width} numbers, settings {keys[stream]}" for stream, width in self.widths.items()}

    def coverage(self, videos: Sequence[str]) -> str:
        """Of the streams that a video may lack, how many videos have each."""
        return ", ".join(f"{stream} of {sum(v in there for v in videos):,}" for stream, there in self.present.items())

    def check(self, videos: Sequence[str]) -> None:
        """Says before the first batch, in one line, what is missing."""
        for stream in () if self.text_only else self.required:
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
        if self.text_only:
            return empty_stream(self.widths[stream], time_steps=1)  # one zero vector
        if stream in self.present and video not in self.present[stream]:
            return empty_stream(self.widths[stream])
        arrays = self.store.read(video, stream)
        if arrays.values.shape[2] != self.widths[stream]:
            raise WatchwordError(
                f"{stream} of video {video!r} in {self.store.folder} has width {arrays.values.shape[2]}, others have "
                f"{self.widths[stream]}: delete its file, then import or extract it again"
            )
        return evenly_chosen(arrays, self.max_time_steps)

    def batches(self, videos: Sequence[str], size: int) -> Iterator[Batch]:
        """Videos without captions, in order: what decoding reads."""
        for start in range(0, len(videos), size):
            names = tuple(videos[start : start + size])
            yield Batch(names, self.read(names), torch.zeros(len(names), 0, 1, dtype=torch.long))


def empty_stream(width: int, time_steps: int = 0) -> StreamArrays:
    """The stream of a video that lacks it; with `time_steps`, zeros that count as real."""
    return StreamArrays(np.zeros((time_steps, 1, width), np.float16), np.zeros(time_steps), np.zeros((1, 4)))


def evenly_chosen(arrays: StreamArrays, time_steps: int | None) -> StreamArrays:
    """Evenly chosen time steps of a stream that has more than were asked for."""
    if time_steps is None or len(arrays.times) <= time_steps:
        return arrays
    rows = evenly(len(arrays.times), time_steps)
    boxes = arrays.boxes[rows] if arrays.boxes.ndim == 3 else arrays.boxes
    mask = None if arrays.mask is None else arrays.mask[rows]
    return StreamArrays(arrays.values[rows], arrays.times[rows], boxes, mask, arrays.provenance)


def pad_streams(arrays: Sequence[StreamArrays]) -> Stream:
    """Videos of different lengths side by side. A video that lacks the stream gets a mask that is all False."""
    videos = len(arrays)
    time_steps = max(1, *(one.values.shape[0] for one in arrays))
    locations = max(1, *(one.values.shape[1] for one in arrays))
    values = np.zeros((videos, time_steps, locations, arrays[0].values.shape[2]), np.float32)
    mask = np.zeros((videos, time_steps, locations), bool)
    times = np.zeros((videos, time_steps), np.float32)
    boxes = np.zeros((videos, time_steps, locations, 4), np.float32)
    for row, one in enumerate(arrays):
        frames, regions = one.values.shape[:2]
        mask[row, :frames, :regions] = True if one.mask is None else one.mask
        values[row, :frames, :regions] = one.values
        values[row, ~mask[row]] = 0
        times[row, :frames] = one.times
        boxes[row, :frames, :regions] = one.boxes
    return Stream(*(torch.from_numpy(array) for array in (values, mask, times, boxes)))


def keep_frames(streams: Streams, share: float) -> dict[str, Stream]:
    """A random share of each video's time steps, in their order: what training reads of a video this time.

    Streams that have the same instants keep the same ones: a frame keeps the window and the regions of its instant.
    """
    drawn = {name: torch.rand(stream.times.shape, device=stream.times.device) for name, stream in streams.items()}
    longest = max(streams, key=lambda name: streams[name].times.shape[1])
    return {
        name: _keep_frames(stream, share, _at_times(stream, drawn[name], streams[longest], drawn[longest]))
        for name, stream in streams.items()
    }


def _at_times(stream: Stream, drawn: torch.Tensor, other: Stream, of_other: torch.Tensor) -> torch.Tensor:
    """The numbers (B, G) drawn for another stream at its time steps nearest to those of this stream: (B, F).

    Videos that lack the other stream keep this stream's own numbers, which elsewhere only break ties.
    """
    there = other.mask.any(-1)  # (B, G)
    distance = (stream.times.unsqueeze(2) - other.times.unsqueeze(1)).abs()
    nearest = distance.masked_fill(~there.unsqueeze(1), float("inf")).argmin(-1)  # (B, F)
    return torch.where(there.any(1, keepdim=True), of_other.gather(1, nearest) + 1e-6 * drawn, drawn)


def _keep_frames(stream: Stream, share: float, drawn: torch.Tensor) -> Stream:
    """The share of time steps with the smallest of the numbers drawn (B, F)."""
    real = stream.mask.any(-1)  # (B, F)
    wanted = (real.sum(-1) * share).ceil().long()  # (B,): none only where there is none
    chosen = drawn.masked_fill(~real, 2.0).argsort(-1).argsort(-1) < wanted.unsqueeze(-1)
    most = max(1, int(wanted.max()))
    rows = (~chosen).int().argsort(dim=-1, stable=True)[:, :most]  # the chosen ones first, in their order
    video = torch.arange(len(rows), device=rows.device).unsqueeze(-1)
    mask = stream.mask[video, rows] & chosen[video, rows].unsqueeze(-1)
    return Stream(stream.values[video, rows], mask, stream.times[video, rows], stream.boxes[video, rows])


def encode_captions(captions: Sequence[str], vocabulary: Vocabulary, max_words: int) -> list[NDArray[Any]]:
    """BOS, words, EOS for every caption. One that is cut has no EOS."""
    from watchword.text.ptb import tokenise  # its rules take 0.15 s to compile, and describing videos needs none

    encoded = []
    for words in tokenise(captions, context="line"):
        if words:  # a caption of punctuation alone says nothing
            ending = [EOS] if len(words) <= max_words else []
            encoded.append(np.array([BOS, *vocabulary.encode(words[:max_words]), *ending], np.int64))
    return encoded


def pad_captions(captions: Sequence[Sequence[NDArray[Any]]]) -> torch.Tensor:
    """(B, S, T); videos with fewer captions get empty ones."""
    most = max(len(own) for own in captions)
    longest = max((len(caption) for own in captions for caption in own), default=2)
    padded = np.full((len(captions), max(most, 1), longest), PAD, np.int64)
    for row, own in enumerate(captions):
        for column, caption in enumerate(own):
            padded[row, column, : len(caption)] = caption
    return torch.from_numpy(padded)


def build_vocabulary(clips: Sequence[Clip], min_count: int) -> Vocabulary:
    """The words of the training captions."""
    from watchword.text.ptb import tokenise

    captions = iter(tokenise([caption for clip in clips for caption in clip.captions], context="line"))
    return Vocabulary.build([list(islice(captions, len(clip.captions))) for clip in clips], min_count)
