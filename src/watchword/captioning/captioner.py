"""A trained captioner in memory: what `watchword.load` returns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, isfinite
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from watchword.captioning.bundle import CaptionerBundle, choose_bundle, find_bundle, stream_specs
from watchword.captioning.confidence import Calibration, confidence, confidence_features
from watchword.captioning.description import Caption, Description, Segment, StreamGeometry, Word
from watchword.captioning.merge import split_by_content
from watchword.captioning.pipeline import DescribeOptions, describe_video
from watchword.data.annotations import video_path
from watchword.data.benchmarks import captions_path, store_path
from watchword.data.dataset import Features, encode_captions, evenly_chosen, pad_captions, pad_streams
from watchword.decoding import Ensemble, Hypotheses, RepetitionFilter, StepModel, beam, mbr_decode, teacher_force
from watchword.downloads import Report, no_report
from watchword.errors import unknown
from watchword.features.extraction import Extraction, Job
from watchword.features.networks import find_device
from watchword.features.store import Store
from watchword.lanes import LaneOptions
from watchword.layers.packed import pack
from watchword.models.checkpoint import load_model
from watchword.tensors import EOS, PAD, Streams
from watchword.text.vocabulary import Vocabulary, never_last, without_loose_end
from watchword.types import AttentionHead, Clip, Diagnostics, FloatArray, Hypothesis, StreamArrays, StreamName
from watchword.video import read_timeline
from watchword.video.inputs import VideoInput, as_file


@runtime_checkable
class HasDiagnostics(Protocol):
    """A model that reports more than attention."""

    def diagnostics(self, streams: Streams, caption: Tensor) -> Diagnostics:
        """Of one video and one caption, (1, 1, T); marks count seconds as the streams do."""


@torch.no_grad()
def diagnose(model: StepModel, streams: Streams, caption: Tensor) -> Diagnostics:
    """The diagnostics of a model, or of all members of an ensemble."""
    members = model.models if isinstance(model, Ensemble) else (model,)
    found = [one.diagnostics(streams, caption) for one in members if isinstance(one, HasDiagnostics)]
    marks = tuple(mark for one in found for mark in one.marks)
    return Diagnostics(marks, tuple(bars for one in found for bars in one.bars))


Arrays = Mapping[str, StreamArrays]
NO_END = -10.0  # log probability of an end token that was not generated


@dataclass(frozen=True)
class SegmentFeatures:
    """The streams of a segment; their times count from its start."""

    start: float  # seconds
    end: float
    arrays: Arrays


@dataclass(frozen=True)
class _Draft:
    row: int  # among the hypotheses of the search
    words: tuple[str, ...]
    log_probs: list[float]  # of the words and of the end token
    score: float  # of the search


class Captioner:
    """Loaded once, it captions any number of videos. Networks are built when they are first needed."""

    def __init__(self, bundle: CaptionerBundle, hint: str = "", store: Path | None = None, device: str = "cpu") -> None:
        self.bundle, self.hint, self._store = bundle, hint, store
        self.device = find_device(device)

    @classmethod
    def load(
        cls,
        name: str | Path | None = None,
        store: Path | None = None,
        device: str = "cpu",
        report: Report = no_report,
    ) -> "Captioner":
        """A run's folder, a shipped captioner's name, or the default one, whose backbone is downloaded once.

        `store`: features from elsewhere than where the run was trained. `device`: where backbones and model compute.
        `report` gets the progress of the download.
        """
        if name is None:
            return cls(*choose_bundle(report), store, device)
        return cls(find_bundle(name), "", store, device)

    @property
    def store(self) -> Path:
        """The folder of the run's features."""
        return self._store or store_path(self.bundle.recipe.data)

    @property
    def name(self) -> str:
        return self.bundle.name

    @property
    def streams(self) -> tuple[str, ...]:
        return self.bundle.recipe.data.streams

    @property
    def vocabulary(self) -> Vocabulary:
        return self.bundle.vocabulary

    @cached_property
    def model(self) -> StepModel:
        """The network, or the ensemble of several."""
        models = [load_model(path, self.vocabulary).to(self.device) for path in self.bundle.weights]
        for model in models:
            pack(model)
        return models[0] if len(models) == 1 else Ensemble(models)

    @cached_property
    def calibration(self) -> Calibration | None:
        return Calibration.load(self.bundle.folder)

    @cached_property
    def features(self) -> Features:
        """The stored features of the run's data set."""
        return Features(Store(self.store), self.bundle.recipe.data)

    # --- videos ----------------------------------------------------------------------------------------------------

    def describe(
        self,
        video: VideoInput,
        *,
        top: int = 1,
        beam: int = 5,
        min_confidence: float = 0.0,
        timeline: bool | None = None,
        rate: float | None = None,
        lanes: LaneOptions | None = None,
    ) -> Description:
        """One caption for a short video, a timeline for one of more than 40 seconds; `timeline` overrides this.

        `video` is a path, bytes, a file object, or frames (F, H, W, 3) with their `rate` a second. `top` captions for
        each segment. Segments whose best caption has less than `min_confidence` are left out. `lanes` are read beside
        the captions.
        """
        options = DescribeOptions(top, beam, timeline, min_confidence, lanes or LaneOptions())
        return self.describe_input(video, options, rate)

    def describe_input(self, video: VideoInput, options: DescribeOptions, rate: float | None = None) -> Description:
        with as_file(video, rate) as (path, name):
            found = describe_video(self, path, options)
        return replace(found, video=name, warnings=tuple(line.replace(str(path), str(name)) for line in found.warnings))

    @cached_property
    def extraction(self) -> Extraction:
        return Extraction(Job(Path(), stream_specs(self.bundle), device=str(self.device)))

    def extract(self, path: Path, seconds: float, warnings: list[str]) -> SegmentFeatures:
        """The features of a whole video."""
        arrays = self.extraction.arrays(path, self._extractors, warnings, self._max_steps)
        return SegmentFeatures(0.0, seconds, self._named(arrays))

    def extract_segments(
        self, path: Path, start: float, seconds: float, warnings: list[str]
    ) -> Iterator[SegmentFeatures]:
        """The features of one segment after the other, from the second `start` on, while the video is decoded once."""
        from watchword.captioning.segmentation import segment_video
        from watchword.features.segments import extract_segments

        segmenter = segment_video(start, seconds)
        for begin, end, arrays in extract_segments(
            self.extraction, path, self._extractors, segmenter, warnings, start, self._max_steps
        ):
            yield SegmentFeatures(begin, end, self._named(arrays))

    @property
    def _extractors(self) -> list[str]:
        return list(dict.fromkeys(StreamName.parse(stream).extractor for stream in self.streams))

    @property
    def _max_steps(self) -> int | None:
        """Time steps to extract: the captioner would drop the others. A window of layers has several time steps."""
        return self.bundle.recipe.data.max_time_steps if "motion_layers" not in self._extractors else None

    def _named(self, arrays: Arrays) -> dict[str, StreamArrays]:
        """Streams by their names in the captioner's recipe."""
        return {stream: arrays[StreamName.parse(stream).base] for stream in self.streams}

    @staticmethod
    def trim_heap() -> None:
        """Returns freed memory to the system, so that a video of any length needs the same memory."""
        from watchword.captioning.segmentation import trim_heap

        trim_heap()

    # --- segments --------------------------------------------------------------------------------------------------

    def caption_segment(self, features: SegmentFeatures, options: DescribeOptions) -> Segment:
        ((best, *others),) = self.generate([features], options.beam, options.top)
        geometry = {
            name: StreamGeometry(arrays.times + features.start, arrays.boxes)
            for name, arrays in self._chosen(features).items()
        }
        captions = (self._with_diagnostics(best, features), *others)
        return Segment(features.start, features.end, captions, geometry)

    @torch.inference_mode()
    def generate(self, segments: Sequence[SegmentFeatures], beam: int = 5, top: int = 1) -> list[list[Caption]]:
        """For each segment up to `top` different captions: the best, those with other content, other wordings."""
        chosen = [self._chosen(segment) for segment in segments]
        streams = {stream: pad_streams([one[stream] for one in chosen]).to(self.device) for stream in self.streams}
        found = self._search(streams, beam, top)
        forced = teacher_force(self.model, streams, found.captions, keep_attention=True)
        log_probs = self.model.log_probabilities(forced.outputs)
        token_log_probs = log_probs.gather(-1, found.captions.unsqueeze(-1)).squeeze(-1)  # (B, S, T)
        attention = _mean_over_members({name: weights.cpu() for name, weights in forced.attention.items()})
        captions = []
        for row, segment in enumerate(segments):
            drafts = self._drafts(found.captions[row], found.scores[row], token_log_probs[row])
            weights = {
                name: tensor[row]
                for name, tensor in attention.items()
                if AttentionHead.parse(name).stream in self.streams
            }
            if top > 1:  # the first of the drafts stays the first
                different, reworded = split_by_content(drafts, lambda draft: draft.words)
                drafts = [*different, *reworded]
            captions.append(self._captions(drafts[:top], weights, chosen[row], segment.start))
        return captions

    def _chosen(self, segment: SegmentFeatures) -> dict[str, StreamArrays]:
        """The time steps that the captioner reads."""
        most = self.bundle.recipe.data.max_time_steps
        return {stream: evenly_chosen(segment.arrays[stream], most) for stream in self.streams}

    @torch.inference_mode()
    def _with_diagnostics(self, caption: Caption, segment: SegmentFeatures) -> Caption:
        streams = {stream: pad_streams([arrays]).to(self.device) for stream, arrays in self._chosen(segment).items()}
        tokens = torch.tensor([[self.vocabulary.encode([word.text for word in caption.words])]])  # (1, 1, T)
        found = diagnose(self.model, streams, tokens.to(self.device))
        marks = tuple(replace(mark, seconds=mark.seconds + segment.start) for mark in found.marks)
        return replace(caption, marks=marks, bars=found.bars)

    @cached_property
    def _filtered(self) -> RepetitionFilter:
        return RepetitionFilter(self.model, never_last(self.vocabulary))

    def _search(self, streams: Streams, width: int, top: int) -> Hypotheses:
        """More hypotheses than wanted: two may be equal once unfinished endings are cut, or have the same content.

        MBR chooses among twice the beam that `evaluate` uses, which scored better (docs/results.md).
        """
        recipe = self.bundle.recipe
        width, most, power = max(width, top), recipe.data.max_words + 1, recipe.selection.length_power
        if recipe.selection.mbr_samples:
            found = mbr_decode(
                self._filtered,
                streams,
                recipe.selection.mbr_samples,
                most,
                beams=2 * width,
                num_best=4 * width if top > 1 else None,  # all of them: alternatives should differ
                length_power=power,
                content=self.vocabulary.content,
            )
        else:
            num_best = width if top > 1 else min(2, width)
            found = beam(self._filtered, streams, width, most, num_best=num_best, length_power=power)
        count = 2 if top == 1 else 4 * width
        captions = found.captions[:, :count]
        longest = int((captions != PAD).sum(-1).max())
        return Hypotheses(captions[..., :longest], found.scores[:, :count])

    def _drafts(self, captions: Tensor, scores: Tensor, token_log_probs: Tensor) -> list[_Draft]:
        """Different captions in the order of the search; an unfinished ending is cut."""
        drafts: dict[tuple[str, ...], _Draft] = {}
        for row, (tokens, score, log_probs) in enumerate(
            zip(captions.tolist(), scores.tolist(), token_log_probs.tolist(), strict=True)
        ):
            length = sum(token != PAD for token in tokens)
            words = without_loose_end(self.vocabulary.decode(tokens))
            if isfinite(score) and words:
                ending = [] if EOS in tokens else [NO_END]
                drafts.setdefault(words, _Draft(row, words, log_probs[:length] + ending, score))
        return list(drafts.values())

    def _captions(
        self, drafts: Sequence[_Draft], weights: Mapping[str, Tensor], arrays: Arrays, start: float
    ) -> list[Caption]:
        captions: list[Caption] = []
        for draft in drafts:
            agreement = draft.score if self.bundle.recipe.selection.mbr_samples else None
            found = confidence_features(draft.log_probs, agreement)
            probability = confidence(self.calibration, found)
            if captions:  # the search preferred the one before: an alternative is never more confident
                probability = min(probability, captions[-1].confidence)
            attention = {
                name: _without_padding(tensor[draft.row, : len(draft.words)], arrays[AttentionHead.parse(name).stream])
                for name, tensor in weights.items()
            }
            words = tuple(
                Word(word, exp(draft.log_probs[index]), _peaks(attention, arrays, index, start))
                for index, word in enumerate(draft.words)
            )
            captions.append(Caption(words, probability, attention, confidence_features=found))
        return captions

    # --- the run's store -------------------------------------------------------------------------------------------

    def describe_stored(self, video: str, path: Path | None = None, *, top: int = 1, beam: int = 5) -> Description:
        """A video of the store as a whole: for imported or drawn streams, or to skip the backbones.

        The length is that of the file at `path`; without one the last time step is the end.
        """
        warnings: list[str] = []
        store = Store(self.store)
        for stream in self.bundle.recipe.data.required_streams:
            if not store.has(video, stream):
                raise unknown(f"video with {stream} in {store.folder}", video, store.videos(stream))
        arrays = self.features.arrays(video)
        if path is not None:
            seconds = read_timeline(path, warnings.append).end
        else:
            seconds = max(float(one.times.max(initial=0)) for one in arrays.values())
        segment = self.caption_segment(SegmentFeatures(0.0, seconds, arrays), DescribeOptions(top, beam))
        return Description(path or Path(video), seconds, self.name, (segment,), tuple(dict.fromkeys(warnings)))

    def caption_stored(self, videos: Sequence[str], beam: int = 5, length_power: float = 0.5) -> list[Hypothesis]:
        """A caption for each video of the store as `watchword evaluate` finds it, with attention (T, F, N)."""
        from watchword.training.evaluation import Search, caption_videos

        self.features.check(videos)
        search = Search(beam, length_power, self.bundle.recipe.data.max_words)
        return caption_videos(
            self.model, self.features, videos, self.vocabulary, search, device=self.device, keep_attention=True
        )

    @torch.no_grad()
    def teacher_force(self, clips: Sequence[Clip]) -> list[Hypothesis]:
        """Every reference as a hypothesis: its log probability, and the attention for each of its words."""
        self.features.check([clip.video for clip in clips])
        found = []
        for clip in clips:
            tokens = encode_captions(clip.captions, self.vocabulary, self.bundle.recipe.data.max_words)
            captions = pad_captions([tokens])[:, :, 1:].to(self.device)  # (1, S, T), without BOS
            streams = {name: stream.to(self.device) for name, stream in self.features.read([clip.video]).items()}
            forced = teacher_force(self.model, streams, captions, keep_attention=True)
            log_probs = self.model.log_probabilities(forced.outputs).gather(-1, captions.unsqueeze(-1))[0, ..., 0]
            for row, caption in enumerate(captions[0].tolist()):
                words = tuple(self.vocabulary.decode(caption))
                attention = {
                    name: weights[0, row, : len(words)].cpu().numpy() for name, weights in forced.attention.items()
                }
                score = float(log_probs[row, : len(tokens[row]) - 1].sum())
                found.append(Hypothesis(clip.video, words, score, attention))
        return found

    def video_file(self, video: str, videos: Path | None = None) -> Path:
        """The file of a video of its data set; `videos` is the file itself or a folder, if not beside the captions."""
        return video_path(video, captions_path(self.bundle.recipe.data), videos)


def _mean_over_members(attention: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The mean attention of an ensemble's members, by head."""
    members: dict[str, list[Tensor]] = {}
    for name, weights in attention.items():
        members.setdefault(str(replace(AttentionHead.parse(name), member=None)), []).append(weights)
    return {name: torch.stack(weights).mean(0) for name, weights in members.items()}


def _without_padding(weights: Tensor, arrays: StreamArrays) -> FloatArray:
    """(T, F, N) without the batch's padding; a stream without time steps keeps one location.

    A copy: a view would keep the attention of all hypotheses in memory.
    """
    steps, locations = (max(1, size) for size in arrays.values.shape[:2])
    return np.asarray(weights[:, :steps, :locations]).copy()


def _peaks(attention: Mapping[str, FloatArray], arrays: Arrays, word: int, start: float) -> dict[str, float]:
    """Head -> the time with the largest weight for one word; streams without time steps have none."""
    peaks = {}
    for name, weights in attention.items():
        times = arrays[AttentionHead.parse(name).stream].times
        if len(times):
            peaks[name] = start + float(times[weights[word].sum(-1).argmax()])
    return peaks
