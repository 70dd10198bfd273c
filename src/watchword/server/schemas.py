"""What the endpoints answer. Their descriptions are the OpenAPI's."""

from typing import Any

from pydantic import BaseModel, Field

from watchword.captioning.description import Description
from watchword.captioning.writers import shot_values
from watchword.library import FilmRow, Hit
from watchword.server.jobs import Job, State


class Problem(BaseModel):
    error: str = Field(description="One line for a person: what is wrong, and what to do next.")


class Limits(BaseModel):
    bytes: int = Field(description="The largest film that is taken.")
    seconds: float = Field(description="The longest film that is taken.")
    queue: int = Field(description="Films that may wait at once.")


class About(BaseModel):
    version: str
    captioner: str = Field(description="Who describes the films.")
    hint: str = Field(description="How to get a better captioner, where there is one.")
    limits: Limits
    meaning: bool = Field(description="Whether films can be searched for by meaning too.")


class JobMade(BaseModel):
    job: str


class JobAnswer(BaseModel):
    id: str
    name: str = Field(description="The film's name, for people: any text.")
    state: State
    done_seconds: float = Field(description="How much of the film is described.")
    seconds: float
    sentence_so_far: str
    film: int | None = Field(description="The film's number, when it is done.")
    problem: str | None = Field(description="Why it failed.")

    @classmethod
    def of(cls, job: Job) -> "JobAnswer":
        return cls(
            id=job.id, name=job.name, state=job.state, done_seconds=job.done_seconds, seconds=job.seconds,
            sentence_so_far=job.sentence, film=job.film, problem=job.problem,
        )  # fmt: skip


class JobList(BaseModel):
    jobs: list[JobAnswer] = Field(description="The newest first.")


class FilmInList(BaseModel):
    id: int
    name: str = Field(description="For people: any text.")
    seconds: float
    sentence: str = Field(description="The surest sentence.")
    confidence: float = Field(description="0..1: the chance that people would not say it better.")
    shots: int
    added: float = Field(description="Seconds since 1970.")

    @classmethod
    def of(cls, row: FilmRow) -> "FilmInList":
        return cls(
            id=row.id, name=row.name, seconds=row.seconds, sentence=row.sentence, confidence=row.confidence,
            shots=row.num_shots, added=row.added,
        )  # fmt: skip


class FilmList(BaseModel):
    films: list[FilmInList] = Field(description="The newest first.")
    total: int


class WordAnswer(BaseModel):
    word: str
    probability: float = Field(description="After the words before it.")
    seconds: dict[str, float] = Field(description="By stream: the moment of the film that it looked at most.")


class SentenceAnswer(BaseModel):
    sentence: str
    confidence: float


class ShotAnswer(BaseModel):
    start: float = Field(description="Seconds.")
    end: float
    sentence: str
    confidence: float
    words: list[WordAnswer]
    alternatives: list[SentenceAnswer]


class FilmAnswer(BaseModel):
    id: int
    name: str
    seconds: float
    captioner: str
    warnings: list[str] = Field(description="Damage: what is good of the film was described.")
    shots: list[ShotAnswer]
    has_video: bool = Field(description="Whether the film itself is still there to be shown.")

    @classmethod
    def of(cls, row: FilmRow, description: Description, has_video: bool) -> "FilmAnswer":
        shots = [ShotAnswer.model_validate(shot_values(shot)) for shot in description.shots]
        return cls(
            id=row.id, name=row.name, seconds=row.seconds, captioner=row.captioner,
            warnings=list(description.warnings), shots=shots, has_video=has_video,
        )  # fmt: skip


class HitAnswer(BaseModel):
    film: int
    name: str
    start: float = Field(description="Where to jump to, seconds.")
    end: float
    sentence: str
    confidence: float
    pieces: list[tuple[str, bool]] = Field(description="The sentence in pieces, and whether each was searched for.")

    @classmethod
    def of(cls, hit: Hit) -> "HitAnswer":
        return cls(
            film=hit.film, name=hit.name, start=hit.start, end=hit.end, sentence=hit.sentence,
            confidence=hit.confidence, pieces=list(hit.pieces),
        )  # fmt: skip


class HitList(BaseModel):
    hits: list[HitAnswer] = Field(description="The best first.")
    total: int


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For an endpoint's documentation."""
    return {status: {"model": Problem} for status in statuses}
