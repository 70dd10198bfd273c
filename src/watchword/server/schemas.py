"""The responses of the endpoints. Their descriptions are those of the OpenAPI document."""

from dataclasses import replace
from typing import Any

from pydantic import BaseModel, Field

from watchword.captioning.confidence import UNSURE
from watchword.captioning.description import Description, Segment, cue_to_dict, language_to_dict, segment_to_dict
from watchword.captioning.merge import chapters, split_by_content
from watchword.captioning.writers import rounded
from watchword.library import Hit, VideoRow
from watchword.server.jobs import Job, State
from watchword.types import Lane


class ErrorAnswer(BaseModel):
    error: str = Field(description="What is wrong, and what to do next, in one line.")


class Limits(BaseModel):
    bytes: int = Field(description="Bytes of the largest accepted video.")
    seconds: float = Field(description="Seconds of the longest accepted video.")
    queue: int = Field(description="Videos that may wait at once.")


class About(BaseModel):
    version: str
    captioner: str = Field(description="The captioner that is used.")
    hint: str = Field(description="How to install a better captioner, if there is one.")
    captioners: list[str] = Field(description="The captioners that can be chosen.")
    unsure_below: float = Field(description="A caption with less confidence is a guess: `unsure`.")
    limits: Limits
    semantic_search: bool = Field(description="Whether `semantic=true` works in a search.")


class Health(BaseModel):
    status: str = Field(description="`ok`; anything else is an error.")


class JobCreated(BaseModel):
    job: str


class JobAnswer(BaseModel):
    id: str
    name: str = Field(description="The name of the upload: any text.")
    state: State
    done_seconds: float = Field(description="Seconds of the video that are captioned.")
    seconds: float
    caption_so_far: str
    unsure: bool = Field(description="Whether that caption has little confidence.")
    video: int | None = Field(description="The number of the video, when it is done or is described again.")
    error: str | None = Field(description="Why it failed.")
    captioner: str = Field(description="The chosen captioner; empty: the server's.")

    @classmethod
    def of(cls, job: Job) -> "JobAnswer":
        return cls(
            id=job.id,
            name=job.name,
            state=job.state,
            done_seconds=job.done_seconds,
            seconds=job.seconds,
            caption_so_far=job.caption,
            unsure=job.confidence < UNSURE,
            video=job.video,
            error=job.error,
            captioner=job.captioner,
        )


class JobList(BaseModel):
    jobs: list[JobAnswer] = Field(description="The newest first.")


class VideoSummary(BaseModel):
    id: int
    name: str = Field(description="Any text.")
    seconds: float
    caption: str = Field(description="The most confident caption.")
    confidence: float = Field(description="0..1: the probability that the caption is as good as a person's.")
    unsure: bool = Field(description="Whether the caption is a guess.")
    segments: int
    edited: int = Field(description="Segments whose caption a person wrote.")
    captioner: str
    added: float = Field(description="Seconds since 1970.")

    @classmethod
    def of(cls, row: VideoRow) -> "VideoSummary":
        return cls(
            id=row.id,
            name=row.name,
            seconds=row.seconds,
            caption=row.caption,
            confidence=row.confidence,
            unsure=row.confidence < UNSURE,
            segments=row.num_segments,
            edited=row.num_edited,
            captioner=row.captioner,
            added=row.added,
        )


class VideoList(BaseModel):
    videos: list[VideoSummary] = Field(description="In the order that was asked for.")
    total: int


class WordAnswer(BaseModel):
    word: str
    probability: float = Field(description="Given the words before it.")
    seconds: dict[str, float] = Field(description="By attention head: the time with the largest weight.")


class CaptionAnswer(BaseModel):
    caption: str
    confidence: float


class OriginalAnswer(CaptionAnswer):
    unsure: bool
    words: list[WordAnswer]


class CaptionEdit(BaseModel):
    caption: str = Field(min_length=1, description="The caption that replaces the one of the segment.")


class SegmentAnswer(BaseModel):
    start: float = Field(description="Seconds.")
    end: float
    key_seconds: float = Field(description="The time whose frame shows what the caption says.")
    caption: str
    confidence: float
    unsure: bool = Field(description="Whether the caption is a guess.")
    edited: bool = Field(description="Whether a person wrote the caption; its confidence is then 1.")
    original: OriginalAnswer | None = Field(description="Under a caption that a person wrote: the captioner's.")
    words: list[WordAnswer]
    alternatives: list[CaptionAnswer] = Field(description="Captions with other content, the most confident first.")

    @classmethod
    def of(cls, segment: Segment) -> "SegmentAnswer":
        """Alternatives that only word the same differently are left out."""
        edited = segment.best.edited
        rest = segment.captions[2 if edited else 1 :]
        different, _ = split_by_content([segment.original, *rest], lambda one: [word.text for word in one.words])
        shown = replace(segment, captions=(*segment.captions[: 1 + edited], *different[1:]))
        values = rounded(segment_to_dict(shown))
        original = values["alternatives"].pop(0) if edited else None
        if original:
            original["unsure"] = segment.original.confidence < UNSURE
        more = {"key_seconds": round(segment.key_seconds, 3), "unsure": segment.best.confidence < UNSURE}
        return cls.model_validate(values | more | {"edited": edited, "original": original})


class ChapterAnswer(BaseModel):
    start: float = Field(description="Seconds.")
    end: float
    caption: str


class CueAnswer(BaseModel):
    start: float = Field(description="Seconds.")
    end: float
    text: str
    confidence: float
    box: tuple[float, float, float, float] | None = Field(
        default=None, description="Of text on screen: x0 y0 x1 y1, 0..1 of the picture."
    )


class LanguageAnswer(BaseModel):
    code: str
    probability: float


class VideoAnswer(BaseModel):
    id: int
    name: str
    seconds: float
    captioner: str
    warnings: list[str] = Field(description="Damage in the file; the readable part was captioned.")
    segments: list[SegmentAnswer]
    chapters: list[ChapterAnswer] = Field(description="Many segments in a few parts.")
    has_file: bool = Field(description="Whether the file of the video still exists.")
    lanes: dict[Lane, list[CueAnswer]] = Field(
        default_factory=dict, description="What is said (speech), written (text) and heard (sounds), where it was read."
    )
    language: LanguageAnswer | None = Field(default=None, description="Of the speech.")

    @classmethod
    def of(cls, row: VideoRow, description: Description, has_file: bool) -> "VideoAnswer":
        parts = [
            ChapterAnswer(start=round(part.start, 3), end=round(part.end, 3), caption=part.best.text)
            for part in chapters(description.segments)
        ]
        lanes, language = description.lanes.items(), rounded(language_to_dict(description.language))
        return cls(
            id=row.id,
            name=row.name,
            seconds=row.seconds,
            captioner=row.captioner,
            warnings=list(description.warnings),
            segments=[SegmentAnswer.of(segment) for segment in description.segments],
            chapters=parts,
            has_file=has_file,
            lanes={lane: [CueAnswer(**rounded(cue_to_dict(cue))) for cue in cues] for lane, cues in lanes},
            language=LanguageAnswer(**language) if language else None,
        )


class HitAnswer(BaseModel):
    video: int
    name: str
    start: float = Field(description="Seconds.")
    end: float
    caption: str
    confidence: float
    unsure: bool = Field(description="Whether the caption is a guess.")
    edited: bool = Field(description="Whether a person wrote the caption.")
    key_seconds: float = Field(description="The time whose frame shows what the caption says.")
    pieces: list[tuple[str, bool]] = Field(description="The caption in pieces, and whether each matches the query.")
    lane: Lane = Field(description="What matches: captions, or what is said (speech), written (text), heard (sounds).")

    @classmethod
    def of(cls, hit: Hit) -> "HitAnswer":
        return cls(
            video=hit.video,
            name=hit.name,
            start=hit.start,
            end=hit.end,
            caption=hit.caption,
            confidence=hit.confidence,
            unsure=hit.confidence < UNSURE,
            edited=hit.edited,
            key_seconds=round(hit.key_seconds, 3),
            pieces=list(hit.pieces),
            lane=hit.lane,
        )


class HitList(BaseModel):
    hits: list[HitAnswer] = Field(description="The best first.")
    total: int


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the documentation of an endpoint."""
    return {status: {"model": ErrorAnswer} for status in statuses}
