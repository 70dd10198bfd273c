"""Descriptions as files: text for people, subtitles for players, JSON and CSV for programs. No network, no terminal."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from watchword.captioning.description import Description, Sentence, Shot, Word
from watchword.captioning.merge import chapters
from watchword.text.sentences import as_sentence
from watchword.video import shown

SUBTITLE_WIDTH = 42  # characters of a line, as broadcasters count


# --- text ----------------------------------------------------------------------------------------------------------


def text_lines(description: Description, *, named: bool) -> list[str]:
    """A sentence for a film described whole, a line for each shot of a timeline; alternatives are set in below."""
    is_timeline = not is_whole(description)
    name = shown(description.film) if named else ""
    lines = [name] if is_timeline and named else []
    for shot in description.shots:
        lines += shot_lines(shot, is_timeline=is_timeline, name=name)
    return lines


def is_whole(description: Description) -> bool:
    """Told by milliseconds: of a shot that was noted and read again there are no more."""
    return len(description.shots) <= 1 and all(
        shot.start == 0 and round(shot.end, 3) == round(description.seconds, 3) for shot in description.shots
    )


def shot_lines(shot: Shot, *, is_timeline: bool, name: str = "") -> list[str]:
    margin = f"{clock(shot.start)} - {clock(shot.end)}  " if is_timeline else f"{name}: " if name else ""
    first, *others = shot.sentences
    return [f"{margin}{_sure(first)}", *(" " * len(margin) + f"or: {_sure(other)}" for other in others)]


def _sure(sentence: Sentence) -> str:
    return f"{sentence.text} ({sentence.confidence:.2f})"


def clock(seconds: float) -> str:
    """0:01:23, for people; minutes and seconds are enough to find a place."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


# --- subtitles -----------------------------------------------------------------------------------------------------


def cues(shots: Sequence[Shot]) -> list[tuple[int, int, str]]:
    """(from, to, sentence) in milliseconds: in order, none empty, none that begins before the one before it ends."""
    found: list[tuple[int, int, str]] = []
    for shot in shots:
        start = max(round(shot.start * 1000), found[-1][1] if found else 0)
        end = max(round(shot.end * 1000), start + 1)
        found.append((start, end, as_sentence(shot.best.text)))
    return found


def srt(description: Description) -> str:
    blocks = [
        f"{number}\n{_stamp(start, ',')} --> {_stamp(end, ',')}\n{fill(text, SUBTITLE_WIDTH)}\n"
        for number, (start, end, text) in enumerate(cues(description.shots), 1)
    ]
    return "\n".join(blocks)


def vtt(description: Description) -> str:
    """WebVTT for a track of kind `descriptions`: read aloud, or shown to those who cannot see."""
    return _webvtt(description.shots, f"descriptions of {_name(description)} by watchword")


def vtt_chapters(description: Description) -> str:
    """WebVTT for a track of kind `chapters`: titles to jump to, one line each, one after the other."""
    return _webvtt(chapters(description.shots), f"chapters of {_name(description)} by watchword")


def _name(description: Description) -> str:
    return shown(Path(description.film.name))


def _webvtt(shots: Sequence[Shot], note: str) -> str:
    blocks = [
        f"{number}\n{_stamp(start, '.')} --> {_stamp(end, '.')}\n{_escaped(text)}\n"
        for number, (start, end, text) in enumerate(cues(shots), 1)
    ]
    return "\n".join(["WEBVTT\n", f"NOTE {_escaped(note)}\n", *blocks])


def _escaped(text: str) -> str:
    """What WebVTT would take for markup, for an arrow or for the end of a cue."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(text.split())


def _stamp(milliseconds: int, point: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{rest:03d}"


# --- for programs --------------------------------------------------------------------------------------------------


def as_json(descriptions: Sequence[Description], problems: Sequence[tuple[Path, str]] = ()) -> str:
    """One document for all films; docs/reference/describe.schema.json says what is in it."""
    captioner = descriptions[0].captioner if descriptions else None
    films: list[dict[str, Any]] = [film_values(description) for description in descriptions]
    films += [{"film": shown(path), "problem": problem} for path, problem in problems]
    document = {"schema": 1, "captioner": captioner, "films": films}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def film_values(description: Description) -> dict[str, Any]:
    return {
        "film": shown(description.film),
        "seconds": round(description.seconds, 3),
        "sentence": description.sentence or None,
        "confidence": round(description.confidence, 4),
        "shots": [shot_values(shot) for shot in description.shots],
        "warnings": list(description.warnings),
    }


def shot_values(shot: Shot) -> dict[str, Any]:
    return {
        "start": round(shot.start, 3),
        "end": round(shot.end, 3),
        **_sentence_values(shot.best),
        "alternatives": [_sentence_values(sentence) for sentence in shot.sentences[1:]],
    }


def _sentence_values(sentence: Sentence) -> dict[str, Any]:
    words = [
        {
            "word": word.text,
            "probability": round(word.probability, 4),
            "seconds": {stream: round(seconds, 3) for stream, seconds in word.seconds.items()},
        }
        for word in sentence.words
    ]
    return {"sentence": sentence.text, "confidence": round(sentence.confidence, 4), "words": words}


def read_shot(values: dict[str, Any]) -> Shot:
    """A shot as `shot_values` wrote it; attention is not kept in words."""
    sentences = [values, *values["alternatives"]]
    return Shot(values["start"], values["end"], tuple(_read_sentence(sentence) for sentence in sentences))


def _read_sentence(values: dict[str, Any]) -> Sentence:
    words = (Word(word["word"], word["probability"], dict(word["seconds"])) for word in values["words"])
    return Sentence(tuple(words), values["confidence"])


def as_csv(descriptions: Sequence[Description]) -> str:
    """A row for each shot."""
    text = io.StringIO(newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["film", "start", "end", "sentence", "confidence"])
    for description in descriptions:
        for shot in description.shots:
            times = [f"{shot.start:.3f}", f"{shot.end:.3f}"]
            rows.writerow([shown(description.film), *times, shot.best.text, f"{shot.best.confidence:.4f}"])
    return text.getvalue()


def as_text(descriptions: Sequence[Description]) -> str:
    named = len(descriptions) > 1
    return "".join(f"{line}\n" for description in descriptions for line in text_lines(description, named=named))


Writer = Callable[[Sequence[Description]], str]


def _of_one(write: Callable[[Description], str]) -> Writer:
    return lambda descriptions: write(descriptions[0])


WRITERS: dict[str, tuple[str, Writer]] = {  # format -> the ending of its files, and what writes it
    "text": (".txt", as_text),
    "json": (".json", as_json),
    "csv": (".csv", as_csv),
    "srt": (".srt", _of_one(srt)),
    "vtt": (".vtt", _of_one(vtt)),
    "chapters": (".chapters.vtt", _of_one(vtt_chapters)),
}
