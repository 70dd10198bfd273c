"""In a child: one captioner in memory, which describes film after film.

    python -m watchword.server.caption_process [MODEL]

The whole of describing is done here, not decoding alone: pixels of a film are many, and sentences are few, so this is
where the line between two processes is cheapest; and torch stays out of the server.
"""

import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchword.captioning.description import Description, Shot
from watchword.captioning.options import Asked
from watchword.captioning.writers import read_shot, shot_values
from watchword.errors import WatchwordError
from watchword.library.meaning import has_minilm
from watchword.server.subprocesses import Child, Message, answer_questions
from watchword.video import read_timeline, shown

if TYPE_CHECKING:
    from watchword.captioning.captioner import Describer

MEMORY_BYTES = 4 << 30     # more than the networks take themselves
SILENCE_SECONDS = 900.0    # between two shots; a dead decoder is found by its CPU time long before
ALTERNATIVES = 3           # sentences for each shot


@dataclass(frozen=True)
class Told:
    """How far a film is described; `description` when it is done."""

    reached: float
    sentence: str
    description: Description | None = None
    evidence: dict[str, Any] | None = None


@dataclass(frozen=True)
class Greeting:
    """Who is there."""

    captioner: str
    hint: str        # how to get a better one
    meaning: bool    # whether sentences can be searched by meaning: asked here, where torch is


class Teller:
    """The captioner, as the server sees it."""

    def __init__(self, model: str | None) -> None:
        words = [model] if model else []
        self.child = Child("watchword.server.caption_process", *words, silence_seconds=SILENCE_SECONDS)

    def greet(self) -> Greeting:
        """A captioner that cannot work is told at the start."""
        (hello,) = self.child.ask({"cpu_seconds": 600})
        return Greeting(**hello)

    def tell(self, path: Path, name: str, seconds: float) -> Generator[Told]:
        question = {"film": str(path), "name": name, "cpu_seconds": 120 + 20 * seconds}
        for message in self.child.ask(question):
            description = read_description(message["description"]) if "description" in message else None
            yield Told(float(message["reached"]), str(message["sentence"]), description, message.get("evidence"))

    def stop(self) -> None:
        self.child.stop()


def description_values(description: Description) -> dict[str, Any]:
    """As the writers have it, but times exact: a film described whole ends where its shot does."""
    shots = [shot_values(shot) | {"start": shot.start, "end": shot.end} for shot in description.shots]
    return {
        "name": str(description.film), "seconds": description.seconds, "captioner": description.captioner,
        "shots": shots, "warnings": list(description.warnings),
    }  # fmt: skip


def read_description(values: dict[str, Any]) -> Description:
    shots = tuple(read_shot(shot) for shot in values["shots"])
    warnings = tuple(map(str, values["warnings"]))
    return Description(Path(values["name"]), values["seconds"], values["captioner"], shots, warnings)


# --- inside the child ----------------------------------------------------------------------------------------------


class Telling:
    """Answers with one message for each shot, and the whole at the end."""

    def __init__(self, model: str | None) -> None:
        self.model = model
        self.describer: Describer | None = None

    def answer(self, question: Message) -> Iterator[Message]:
        describer = self.open()
        if "film" not in question:
            yield {"captioner": describer.name, "hint": describer.hint, "meaning": has_minilm()}
            return
        path, name = Path(question["film"]), question["name"]
        try:
            yield from self.tell(path, name)
        except WatchwordError as error:
            raise WatchwordError(renamed(str(error), path, name)) from error

    def open(self) -> "Describer":
        if self.describer is None:
            from watchword.captioning.captioner import Describer

            self.describer = Describer.open(self.model)
        return self.describer

    def tell(self, path: Path, name: str) -> Iterator[Message]:
        from watchword.captioning.attention import evidence_of
        from watchword.captioning.merge import join_alike

        describer, warnings, shots = self.open(), list[str](), list[Shot]()
        seconds = read_timeline(path, warnings.append).end
        for shot in describer.shots(path, seconds, warnings, Asked(top=ALTERNATIVES)):
            shots.append(shot)
            yield {"reached": shot.end, "sentence": shot.best.text}
        lines = tuple(dict.fromkeys(renamed(line, path, name) for line in warnings))
        description = Description(Path(name), seconds, describer.name, tuple(join_alike(shots)), lines)
        yield {
            "reached": seconds, "sentence": description.sentence,
            "description": description_values(description), "evidence": evidence_of(description).values(),
        }  # fmt: skip


def renamed(line: str, path: Path, name: str) -> str:
    """People know their film by its name, and need not know where we keep it."""
    return line.replace(shown(path), name)


if __name__ == "__main__":
    import watchword.captioning.captioner  # noqa: F401 - torch, before memory is counted

    answer_questions(Telling(sys.argv[1] if len(sys.argv) > 1 else None).answer, memory_bytes=MEMORY_BYTES)
