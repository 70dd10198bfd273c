"""The responses of the endpoints. Their descriptions are those of the OpenAPI document, which is also a page."""

from html import escape
from typing import Any

from pydantic import BaseModel, Field

from watchword.captioning.description import Description, cue_to_dict, language_to_dict, segment_to_dict
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
    limits: Limits
    semantic_search: bool = Field(description="Whether `semantic=true` works in a search.")


class JobCreated(BaseModel):
    job: str


class JobAnswer(BaseModel):
    id: str
    name: str = Field(description="The name of the upload: any text.")
    state: State
    done_seconds: float = Field(description="Seconds of the video that are captioned.")
    seconds: float
    caption_so_far: str
    video: int | None = Field(description="The number of the video, when it is done.")
    error: str | None = Field(description="Why it failed.")

    @classmethod
    def of(cls, job: Job) -> "JobAnswer":
        return cls(
            id=job.id,
            name=job.name,
            state=job.state,
            done_seconds=job.done_seconds,
            seconds=job.seconds,
            caption_so_far=job.caption,
            video=job.video,
            error=job.error,
        )


class JobList(BaseModel):
    jobs: list[JobAnswer] = Field(description="The newest first.")


class VideoSummary(BaseModel):
    id: int
    name: str = Field(description="Any text.")
    seconds: float
    caption: str = Field(description="The most confident caption.")
    confidence: float = Field(description="0..1: the probability that the caption is as good as a person's.")
    segments: int
    added: float = Field(description="Seconds since 1970.")

    @classmethod
    def of(cls, row: VideoRow) -> "VideoSummary":
        return cls(
            id=row.id,
            name=row.name,
            seconds=row.seconds,
            caption=row.caption,
            confidence=row.confidence,
            segments=row.num_segments,
            added=row.added,
        )


class VideoList(BaseModel):
    videos: list[VideoSummary] = Field(description="The newest first.")
    total: int


class WordAnswer(BaseModel):
    word: str
    probability: float = Field(description="Given the words before it.")
    seconds: dict[str, float] = Field(description="By attention head: the time with the largest weight.")


class CaptionAnswer(BaseModel):
    caption: str
    confidence: float


class SegmentAnswer(BaseModel):
    start: float = Field(description="Seconds.")
    end: float
    caption: str
    confidence: float
    words: list[WordAnswer]
    alternatives: list[CaptionAnswer]


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
    has_file: bool = Field(description="Whether the file of the video still exists.")
    lanes: dict[Lane, list[CueAnswer]] = Field(
        default_factory=dict, description="What is said (speech), written (text) and heard (sounds), where it was read."
    )
    language: LanguageAnswer | None = Field(default=None, description="Of the speech.")

    @classmethod
    def of(cls, row: VideoRow, description: Description, has_file: bool) -> "VideoAnswer":
        segments = [SegmentAnswer.model_validate(rounded(segment_to_dict(segment))) for segment in description.segments]
        lanes, language = description.lanes.items(), rounded(language_to_dict(description.language))
        return cls(
            id=row.id,
            name=row.name,
            seconds=row.seconds,
            captioner=row.captioner,
            warnings=list(description.warnings),
            segments=segments,
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
            pieces=list(hit.pieces),
            lane=hit.lane,
        )


class HitList(BaseModel):
    hits: list[HitAnswer] = Field(description="The best first.")
    total: int


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the documentation of an endpoint."""
    return {status: {"model": ErrorAnswer} for status in statuses}


# --- the OpenAPI document as a page ----------------------------------------------------------------------------------


Document = dict[str, Any]


def openapi_page(document: Document) -> str:
    """HTML without style, script or network: a browser's own style is enough."""
    title = f"{document['info']['title']} {document['info']['version']}"
    endpoints = [
        _endpoint(method, path, about, document)
        for path, methods in document["paths"].items()
        for method, about in methods.items()
    ]
    names = sorted(document["components"]["schemas"])
    shapes = [_shape(name, document["components"]["schemas"][name]) for name in names]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}: the API</title>'
        '<meta name="viewport" content="width=device-width"></head><body>'
        f"<h1>{escape(title)}</h1><p>{escape(document['info'].get('summary', ''))} "
        'For programs: <a href="/api/openapi.json">openapi.json</a>.</p>'
        f"<h2>Endpoints</h2>{''.join(endpoints)}<h2>Answers</h2>{''.join(shapes)}</body></html>"
    )


def _endpoint(method: str, path: str, about: Document, document: Document) -> str:
    rows = [
        f"<li><code>{escape(one['name'])}</code> ({one['in']}{', needed' if one.get('required') else ''}): "
        f"{_kind(one['schema'])}. {escape(one.get('description', ''))}</li>"
        for one in about.get("parameters", [])
    ]
    answers = []
    for status, answer in about["responses"].items():
        kinds = [_content(kind, content) for kind, content in answer.get("content", {}).items()]
        answers.append(f"<li>{status}: {', '.join(kinds) or escape(answer['description'])}</li>")
    said = escape(about.get("description") or about["summary"])
    return (
        f"<section><h3><code>{method.upper()} {escape(path)}</code></h3><p>{said}</p>"
        f"<ul>{''.join(rows)}</ul><p>Answers:</p><ul>{''.join(answers)}</ul></section>"
    )


def _content(kind: str, content: Document) -> str:
    return f"{escape(kind)} {_kind(content['schema'])}" if content.get("schema") else escape(kind)


def _shape(name: str, schema: Document) -> str:
    needed = schema.get("required", [])
    rows = [
        f"<li><code>{escape(field)}</code>{'' if field in needed else ' (may be missing)'}: {_kind(about)}. "
        f"{escape(about.get('description', ''))}</li>"
        for field, about in schema.get("properties", {}).items()
    ]
    return f'<section id="{escape(name)}"><h3>{escape(name)}</h3><ul>{"".join(rows)}</ul></section>'


def _kind(schema: Document) -> str:
    """A type in words."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return escape(", ".join(map(str, schema["enum"])))
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    limits = [f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    return escape(" ".join([schema.get("type", "anything"), *limits]))
