"""A job of one or many films that can be stopped and gone on with: what is done is written down shot by shot."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchword.captioning.description import Description, Shot
from watchword.captioning.merge import join_alike
from watchword.captioning.options import Asked
from watchword.captioning.writers import read_shot, shot_values
from watchword.errors import WatchwordError
from watchword.video import read_timeline

if TYPE_CHECKING:
    from watchword.captioning.captioner import Describer


@dataclass
class Progress:
    """One film: how far it is."""

    film: Path
    seconds: float = 0.0
    shots: list[Shot] = field(default_factory=list)    # as they were found: not joined, sure or not
    warnings: list[str] = field(default_factory=list)
    problem: str = ""
    is_done: bool = False

    @property
    def reached(self) -> float:
        """Seconds of film that are described."""
        return self.shots[-1].end if self.shots else 0.0

    def description(self, captioner: str, at_least: float) -> Description:
        sure = (shot for shot in self.shots if shot.best.confidence >= at_least)
        warnings = tuple(dict.fromkeys(self.warnings))
        return Description(self.film, self.seconds, captioner, tuple(join_alike(sure)), warnings)


class Ledger:
    """The file beside an output in which a job notes what is done: a line for each shot, and for each film's end.

    Its first line says what was asked of which captioner: lines of another job are not gone on with.
    """

    def __init__(self, path: Path | None, job: dict[str, Any], resume: bool) -> None:
        self.path = path
        self.films: dict[str, Progress] = {}
        if path is None:
            return
        if resume and path.exists():
            self._read(path, job)
        else:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(job) + "\n", "utf-8")
            except OSError as error:
                raise WatchwordError(f"cannot write {path}: {error.strerror or error}") from error

    def _read(self, path: Path, job: dict[str, Any]) -> None:
        lines = path.read_bytes().decode("utf-8", "replace").split("\n")
        whole, rest = lines[:-1], lines[-1]  # a line without an end was being written when the job was killed
        try:
            begun = json.loads(whole[0])
            rows = [json.loads(line) for line in whole[1:]]
        except (IndexError, ValueError) as error:
            raise WatchwordError(f"{path} is damaged ({error}): delete it and begin again") from error
        if begun != job:
            changed = [key for key in job if begun.get(key) != job[key]] or ["the job"]
            raise WatchwordError(
                f"{path} was begun with another {changed[0]} ({begun.get(changed[0])!r}, now {job.get(changed[0])!r}): "
                "go on with the same, or leave out --resume to begin again"
            )
        for row in rows:
            film = self.films.setdefault(row["film"], Progress(Path(row["film"]), row["seconds"]))
            film.shots += [read_shot(row["shot"])] if "shot" in row else []
            film.warnings, film.is_done = row.get("warnings", []), "shot" not in row
        if rest:
            path.write_text("".join(f"{line}\n" for line in whole), "utf-8")

    def note(self, film: Progress, row: dict[str, Any]) -> None:
        if self.path is None:
            return
        line = json.dumps({"film": _identity(film.film), "seconds": film.seconds, **row})
        try:
            with self.path.open("a", encoding="ascii") as file:
                file.write(line + "\n")
        except OSError as error:
            raise WatchwordError(f"cannot write {self.path}: {error.strerror or error}") from error

    def close(self) -> None:
        """All is done: nothing to go on with."""
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()


def _identity(film: Path) -> str:
    """A film is the same if it has the same name, size and time."""
    status = film.stat()
    return f"{film}\t{status.st_size}\t{status.st_mtime_ns}"


@dataclass(frozen=True)
class Session:
    """Films, what is asked of them, and where it is noted."""

    films: Sequence[Path]
    asked: Asked
    open: Callable[[], "Describer"]    # called when the first film turns out to be one
    ledger: Ledger

    def run(self) -> Iterator[Progress]:
        """Each film when it begins, after each of its shots, and when it is done. A bad film does not stop the rest."""
        describer: Describer | None = None
        for path in self.films:
            film = self._begin(path)
            yield film
            if film.is_done or film.problem:
                continue
            describer = describer or self.open()
            try:
                for shot in describer.shots(path, film.seconds, film.warnings, self.asked, film.reached):
                    film.shots.append(shot)
                    self.ledger.note(film, {"shot": shot_values(shot)})
                    yield film
            except Exception as error:  # whatever it is, other films wait
                known = isinstance(error, WatchwordError)
                film.problem = str(error) if known else f"cannot describe {path}: {type(error).__name__}: {error}"
            else:
                film.is_done = True
                self.ledger.note(film, {"warnings": film.warnings})
            yield film

    def _begin(self, path: Path) -> Progress:
        """A film as far as it was noted; one that cannot be read has a problem."""
        try:
            noted = self.ledger.films.get(_identity(path)) if path.exists() else None
            if noted is not None:
                return replace(noted, film=path)
            film = Progress(path)
            film.seconds = read_timeline(path, film.warnings.append).end
        except WatchwordError as error:
            return Progress(path, problem=str(error))
        return film
