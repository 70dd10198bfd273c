"""What `watchword.describe` returns, and its one JSON codec. Numpy only.

The codec keeps numbers exact: the journal, the library and the server store what it gives. The writers round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from watchword.lanes import LANES
from watchword.text.vocabulary import spelled
from watchword.types import Bars, Cue, FloatArray, Lane, Language, Mark


@dataclass(frozen=True)
class Word:
    """A word of a caption, its probability given the words before it, and where its attention peaks."""

    text: str
    probability: float
    seconds: dict[str, float] = field(default_factory=dict)  # attention head -> time with the largest weight


@dataclass(frozen=True)
class Caption:
    """One caption of a segment. The keys of `attention` are attention heads, see `AttentionHead`."""

    words: tuple[Word, ...]
    confidence: float  # 0..1
    attention: dict[str, FloatArray] = field(default_factory=dict)  # head -> (T, F, N), a distribution for each word
    marks: tuple[Mark, ...] = ()  # frames that the model selected
    bars: tuple[Bars, ...] = ()  # weights of layers or branches for each word
    confidence_features: dict[str, float] = field(default_factory=dict)
    edited: bool = False  # written by a person; it has neither probabilities nor attention

    @classmethod
    def by_hand(cls, text: str) -> "Caption":
        return cls(tuple(Word(word, 1.0) for word in text.split()), 1.0, edited=True)

    @property
    def text(self) -> str:
        return spelled(word.text for word in self.words)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class StreamGeometry:
    """The time steps and locations of a stream: what attention is drawn with."""

    times: FloatArray  # (F,) seconds of the video
    boxes: FloatArray  # (N, 4) or (F, N, 4): x0 y0 x1 y1, 0..1 of the picture


@dataclass(frozen=True)
class Segment:
    """A part of a video and its captions, the best first."""

    start: float  # seconds
    end: float
    captions: tuple[Caption, ...]
    geometry: dict[str, StreamGeometry] = field(default_factory=dict)  # by stream

    @property
    def best(self) -> Caption:
        return self.captions[0]

    @property
    def original(self) -> Caption:
        """The best caption of the captioner, under one that a person wrote."""
        return next((caption for caption in self.captions if not caption.edited), self.best)

    @property
    def key_seconds(self) -> float:
        """The time whose frame shows what the caption says: the median peak of attention, else the middle."""
        peaks = sorted(seconds for word in self.original.words for seconds in word.seconds.values())
        seconds = peaks[(len(peaks) - 1) // 2] if peaks else (self.start + self.end) / 2
        return min(max(seconds, self.start), self.end)

    def edited_to(self, text: str) -> "Segment":
        """With a caption by hand in front; without one if it is empty or the original's text."""
        rest = tuple(caption for caption in self.captions if not caption.edited)
        by_hand = () if text in ("", self.original.text) else (Caption.by_hand(text),)
        return replace(self, captions=(*by_hand, *rest))


@dataclass(frozen=True)
class Description:
    """A video and its captions: one segment for the whole video, or the segments of a timeline."""

    video: Path
    seconds: float
    captioner: str
    segments: tuple[Segment, ...]
    warnings: tuple[str, ...] = ()  # damage in the file; the readable part was captioned
    lanes: Mapping[Lane, tuple[Cue, ...]] = field(default_factory=dict)  # beside the captions: those that were read
    language: Language | None = None  # of the speech

    @property
    def speech(self) -> tuple[Cue, ...]:
        """What is said."""
        return self.lanes.get("speech", ())

    @property
    def text(self) -> tuple[Cue, ...]:
        """What is written on screen."""
        return self.lanes.get("text", ())

    @property
    def sounds(self) -> tuple[Cue, ...]:
        """What is heard: AudioSet classes."""
        return self.lanes.get("sounds", ())

    @property
    def best(self) -> Caption | None:
        """The caption with the highest confidence; None where no segment has one."""
        return max((segment.best for segment in self.segments), key=lambda caption: caption.confidence, default=None)

    @property
    def caption(self) -> str:
        return self.best.text if self.best else ""

    @property
    def confidence(self) -> float:
        return self.best.confidence if self.best else 0.0

    @property
    def alternatives(self) -> tuple[Caption, ...]:
        """The other captions of a video that was captioned as a whole."""
        return self.segments[0].captions[1:] if len(self.segments) == 1 else ()

    @property
    def attention(self) -> dict[str, FloatArray]:
        """Head -> (T, F, N) of the best caption."""
        return self.best.attention if self.best else {}

    @property
    def is_whole(self) -> bool:
        """Whether one segment covers the video. Times are compared in milliseconds."""
        return len(self.segments) <= 1 and all(
            segment.start == 0 and round(segment.end, 3) == round(self.seconds, 3) for segment in self.segments
        )

    def __str__(self) -> str:
        return self.caption

    def _repr_html_(self) -> str:
        from watchword.captioning.writers import as_html

        return as_html(self)


# --- the codec -----------------------------------------------------------------------------------------------------


def description_to_dict(description: Description) -> dict[str, Any]:
    """Without attention: `explain` has it."""
    return {
        "video": str(description.video),
        "seconds": description.seconds,
        "captioner": description.captioner,
        "segments": [segment_to_dict(segment) for segment in description.segments],
        "warnings": list(description.warnings),
        **lanes_to_dict(description.lanes, description.language),
    }


def description_from_dict(values: Mapping[str, Any]) -> Description:
    segments = tuple(segment_from_dict(segment) for segment in values["segments"])
    warnings = tuple(map(str, values["warnings"]))
    lanes, language = lanes_from_dict(values)
    return Description(
        Path(values["video"]), values["seconds"], values["captioner"], segments, warnings, lanes, language
    )


def lanes_to_dict(lanes: Mapping[Lane, Sequence[Cue]], language: Language | None) -> dict[str, Any]:
    """A key for each lane that was read, and one for the language of the speech."""
    values: dict[str, Any] = {lane: [cue_to_dict(cue) for cue in cues] for lane, cues in lanes.items()}
    return values | {"language": language_to_dict(language)} if "speech" in lanes else values


def lanes_from_dict(values: Mapping[str, Any]) -> tuple[dict[Lane, tuple[Cue, ...]], Language | None]:
    lanes: dict[Lane, tuple[Cue, ...]] = {
        lane: tuple(map(cue_from_dict, values[lane])) for lane in LANES if lane in values
    }
    return lanes, language_from_dict(values.get("language"))


def cue_to_dict(cue: Cue) -> dict[str, Any]:
    values = {"start": cue.start, "end": cue.end, "text": cue.text, "confidence": cue.confidence}
    return values | {"box": list(cue.box)} if cue.box else values


def cue_from_dict(values: Mapping[str, Any]) -> Cue:
    box = tuple(values["box"]) if "box" in values else None
    return Cue(values["start"], values["end"], values["text"], values["confidence"], box)


def language_to_dict(language: Language | None) -> dict[str, Any] | None:
    return {"code": language.code, "probability": language.probability} if language else None


def language_from_dict(values: Mapping[str, Any] | None) -> Language | None:
    return Language(values["code"], values["probability"]) if values else None


def segment_to_dict(segment: Segment) -> dict[str, Any]:
    return {
        "start": segment.start,
        "end": segment.end,
        **_caption_to_dict(segment.best),
        "alternatives": [_caption_to_dict(caption) for caption in segment.captions[1:]],
    }


def segment_from_dict(values: Mapping[str, Any]) -> Segment:
    captions = (values, *values["alternatives"])
    return Segment(values["start"], values["end"], tuple(_caption_from_dict(caption) for caption in captions))


def _caption_to_dict(caption: Caption) -> dict[str, Any]:
    words = [{"word": word.text, "probability": word.probability, "seconds": word.seconds} for word in caption.words]
    edited = {"edited": True} if caption.edited else {}
    return {"caption": caption.text, "confidence": caption.confidence, **edited, "words": words}


def _caption_from_dict(values: Mapping[str, Any]) -> Caption:
    words = (Word(word["word"], word["probability"], dict(word["seconds"])) for word in values["words"])
    return Caption(tuple(words), values["confidence"], edited=bool(values.get("edited")))
