"""Descriptions as files: text for people, subtitles for players, JSON and CSV for programs, HTML for notebooks."""

import csv
import io
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

from watchword.captioning.confidence import UNSURE, in_words
from watchword.captioning.description import Caption, Description, Segment, lanes_to_dict, segment_to_dict
from watchword.captioning.merge import chapters
from watchword.text.vocabulary import as_sentence
from watchword.types import Cue, Lane
from watchword.video import shown

SCHEMA = 2
SUBTITLE_WIDTH = 42  # characters of a line, as broadcasters count
EDITED = "NOTE edited by hand\n\n"  # before a cue of WebVTT; SRT has no comments
HTML_SEGMENTS = 200  # shown in a notebook
DIGITS = {"start": 3, "end": 3, "seconds": 3, "confidence": 4, "probability": 4, "box": 4}  # of the numbers in JSON
VERBS: dict[Lane, str] = {"captions": "seen", "speech": "said", "text": "written", "sounds": "heard"}

# --- text ----------------------------------------------------------------------------------------------------------


def text_lines(description: Description, *, named: bool) -> list[str]:
    """A line for a whole video, a line for each segment of a timeline; alternatives are indented below."""
    is_timeline = not description.is_whole
    name = shown(description.video) if named else ""
    lines = [name] if is_timeline and named else []
    for segment in description.segments:
        lines += segment_lines(segment, is_timeline=is_timeline, name=name)
    return lines + lane_lines(description, name=name)


def lane_lines(description: Description, *, name: str = "") -> list[str]:
    """What is said, written and heard: a line for each cue."""
    margin = f"{name}: " if name and description.is_whole else ""
    return [
        f"{margin}{clock(cue.start)} - {clock(cue.end)}  {VERBS[lane]}: {cue.text} ({cue.confidence:.2f})"
        for lane, cues in description.lanes.items()
        for cue in cues
    ]


def segment_lines(segment: Segment, *, is_timeline: bool, name: str = "") -> list[str]:
    margin = f"{clock(segment.start)} - {clock(segment.end)}  " if is_timeline else f"{name}: " if name else ""
    first, *others = segment.captions
    return [f"{margin}{as_guess(first)}", *(" " * len(margin) + f"or: {with_confidence(one)}" for one in others)]


def as_guess(caption: Caption) -> str:
    """With its confidence; below UNSURE as a question."""
    return f"{caption.text}{certainty(caption.confidence, caption.edited)}"


def certainty(confidence: float, edited: bool = False) -> str:
    """What follows a caption: ` (0.64)`, `? (unsure, 0.21)`, or ` (edited)` where a person wrote it."""
    if edited:
        return " (edited)"
    return f"? (unsure, {confidence:.2f})" if confidence < UNSURE else f" ({confidence:.2f})"


def with_confidence(caption: Caption) -> str:
    return f"{caption.text} ({'edited' if caption.edited else f'{caption.confidence:.2f}'})"


def clock(seconds: float) -> str:
    """0:01:23"""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


# --- subtitles -----------------------------------------------------------------------------------------------------


def cues(segments: Sequence[Segment]) -> list[tuple[int, int, str]]:
    """(start, end, caption) in milliseconds: in order, none empty, none that overlaps the one before it."""
    return in_order((segment.start, segment.end, as_sentence(segment.best.text)) for segment in segments)


def in_order(timed: Iterable[tuple[float, float, str]]) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    for start, end, text in timed:
        begin = max(round(start * 1000), found[-1][1] if found else 0)
        found.append((begin, max(round(end * 1000), begin + 1), text))
    return found


def lane_cues(description: Description, lane: Lane) -> list[tuple[int, int, str]]:
    """(start, end, text) in milliseconds, in order; lines that are on screen together, or sounds, are joined."""
    if lane == "captions":
        return cues(description.segments)
    if lane == "speech":
        return in_order((cue.start, cue.end, cue.text) for cue in description.speech)
    return in_order(_joined(description.lanes.get(lane, ()), "\n" if lane == "text" else ", "))


def _joined(some: Sequence[Cue], separator: str) -> Iterator[tuple[float, float, str]]:
    """Cues that overlap, as cues that do not: one for each time in which the same ones are there."""
    edges = sorted({edge for cue in some for edge in (cue.start, cue.end)})
    waiting, there = deque(sorted(some, key=lambda cue: cue.start)), list[Cue]()
    for begin, end in pairwise(edges):
        while waiting and waiting[0].start <= begin:
            there.append(waiting.popleft())
        there = [cue for cue in there if cue.end > begin]
        if there:
            yield begin, end, separator.join(cue.text for cue in there)


def srt(description: Description, lane: Lane = "captions") -> str:
    blocks = [
        f"{number}\n{_stamp(start, ',')} --> {_stamp(end, ',')}\n{_filled(text)}\n"
        for number, (start, end, text) in enumerate(lane_cues(description, lane), 1)
    ]
    return "\n".join(blocks)


def _filled(text: str) -> str:
    return "\n".join(fill(line, SUBTITLE_WIDTH) for line in text.split("\n"))


def vtt(description: Description, lane: Lane = "captions") -> str:
    """WebVTT: captions for a track of kind `descriptions`, speech for one of kind `subtitles`."""
    kind = "descriptions" if lane == "captions" else "subtitles" if lane == "speech" else lane
    edited = [segment.best.edited for segment in description.segments] if lane == "captions" else []
    return _webvtt(lane_cues(description, lane), f"{kind} of {_name(description)} by watchword", edited)


def vtt_chapters(description: Description) -> str:
    """WebVTT for a track of kind `chapters`: one title a line, without gaps."""
    found = chapters(description.segments)
    edited = [chapter.best.edited for chapter in found]
    return _webvtt(cues(found), f"chapters of {_name(description)} by watchword", edited)


def _name(description: Description) -> str:
    return shown(Path(description.video.name))


def _webvtt(timed: Sequence[tuple[int, int, str]], note: str, edited: Sequence[bool] = ()) -> str:
    notes = [EDITED if by_hand else "" for by_hand in edited] or [""] * len(timed)
    blocks = [
        f"{notes[number - 1]}{number}\n{_stamp(start, '.')} --> {_stamp(end, '.')}\n{_lines(text)}\n"
        for number, (start, end, text) in enumerate(timed, 1)
    ]
    return "\n".join(["WEBVTT\n", f"NOTE {_escaped(note)}\n", *blocks])


def _lines(text: str) -> str:
    return "\n".join(_escaped(line) for line in text.split("\n"))


def _escaped(text: str) -> str:
    """Escapes what WebVTT reads as markup, as an arrow or as the end of a cue."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(text.split())


def _stamp(milliseconds: int, point: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{rest:03d}"


# --- for programs --------------------------------------------------------------------------------------------------


def as_json(descriptions: Sequence[Description], errors: Sequence[tuple[Path, str]] = ()) -> str:
    """One document for all videos; docs/reference/describe.schema.json is its schema."""
    captioner = descriptions[0].captioner if descriptions else None
    videos: list[dict[str, Any]] = [video_values(description) for description in descriptions]
    videos += [{"video": shown(path), "error": error} for path, error in errors]
    document = {"schema": SCHEMA, "captioner": captioner, "videos": videos}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def json_line(description: Description) -> str:
    """One line for one video, with the captioner; otherwise as in the document for all videos."""
    values = {"schema": SCHEMA, "captioner": description.captioner, **video_values(description)}
    return json.dumps(values, ensure_ascii=False)


def error_line(video: Path, error: str) -> str:
    """The line of a video that could not be described."""
    return json.dumps({"schema": SCHEMA, "video": shown(video), "error": error}, ensure_ascii=False)


def video_values(description: Description) -> dict[str, Any]:
    values: dict[str, Any] = rounded(
        {
            "video": shown(description.video),
            "seconds": description.seconds,
            "caption": description.caption or None,
            "confidence": description.confidence,
            "segments": [segment_to_dict(segment) for segment in description.segments],
            "warnings": list(description.warnings),
            **lanes_to_dict(description.lanes, description.language),
        }
    )
    return values


def rounded(values: Any, digits: int | None = None) -> Any:
    """Values for people and files: numbers with the digits of their key."""
    if isinstance(values, dict):
        return {key: rounded(value, DIGITS.get(key, digits)) for key, value in values.items()}
    if isinstance(values, list):
        return [rounded(value, digits) for value in values]
    return round(values, digits) if isinstance(values, float) and digits is not None else values


def as_csv(descriptions: Sequence[Description]) -> str:
    """A row for each segment, and for each cue of the other lanes; a column `edited` where a person wrote a caption."""
    text = io.StringIO(newline="")
    rows = csv.writer(text, lineterminator="\n")
    has_edits = any(segment.best.edited for description in descriptions for segment in description.segments)
    rows.writerow(["video", "start", "end", "caption", "confidence", "lane", *(["edited"] if has_edits else [])])
    for description in descriptions:
        found: list[tuple[Lane, Cue, bool]] = [
            ("captions", Cue(one.start, one.end, one.best.text, one.best.confidence), one.best.edited)
            for one in description.segments
        ]
        found += [(lane, cue, False) for lane, some in description.lanes.items() for cue in some]
        for lane, cue, edited in found:
            times = [f"{cue.start:.3f}", f"{cue.end:.3f}"]
            texts = plain_cell(shown(description.video)), plain_cell(cue.text)
            by_hand = ["yes" if edited else ""] if has_edits else []
            rows.writerow([texts[0], *times, texts[1], f"{cue.confidence:.4f}", lane, *by_hand])
    return text.getvalue()


def plain_cell(text: str) -> str:
    """Text that no spreadsheet runs as a formula: an apostrophe in front says that it is text."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def as_text(descriptions: Sequence[Description]) -> str:
    named = len(descriptions) > 1
    return "".join(f"{line}\n" for description in descriptions for line in text_lines(description, named=named))


Format = Literal["text", "json", "csv", "srt", "vtt", "chapters"]
Writer = Callable[[Sequence[Description]], str]


def _of_one(write: Callable[[Description], str]) -> Writer:
    return lambda descriptions: write(descriptions[0])


WRITERS: dict[Format, tuple[str, Writer]] = {  # format -> suffix of its files, and its writer
    "text": (".txt", as_text),
    "json": (".json", as_json),
    "csv": (".csv", as_csv),
    "srt": (".srt", _of_one(srt)),
    "vtt": (".vtt", _of_one(vtt)),
    "chapters": (".chapters.vtt", _of_one(vtt_chapters)),
}

LANE_WRITERS: dict[Format, Callable[[Description, Lane], str]] = {"srt": srt, "vtt": vtt}  # one lane a file

# --- notebooks -----------------------------------------------------------------------------------------------------


def as_html(description: Description) -> str:
    """Captions, their confidence, and the peak of each word's attention. No scripts."""
    about = escape(f"{clock(description.seconds)}, {description.captioner}")
    title = f"<b>{escape(description.video.name)}</b> <small>{about}</small>"
    lanes = "".join(f"<br><small>{escape(line)}</small>" for line in lane_lines(description)[:HTML_SEGMENTS])
    if not description.segments:
        return f"<div>{title}<br><i>no caption is confident enough</i>{lanes}</div>"
    if description.is_whole:
        others = "".join(f"<li>{_html_caption(caption)}</li>" for caption in description.alternatives)
        best = _html_caption(description.segments[0].best)
        return f"<div>{title}<br>{best}{f'<ul>{others}</ul>' if others else ''}{lanes}</div>"
    rows = "".join(_html_row(segment) for segment in description.segments[:HTML_SEGMENTS])
    more = len(description.segments) - HTML_SEGMENTS
    rest = f"<small>and {more} more</small>" if more > 0 else ""
    return f"<div>{title}<table>{rows}</table>{rest}{lanes}</div>"


def _html_row(segment: Segment) -> str:
    times = f"{clock(segment.start)}&ndash;{clock(segment.end)}"
    return f"<tr><td><code>{times}</code></td><td>{_html_caption(segment.best)}</td></tr>"


def _html_caption(caption: Caption) -> str:
    """Words fade with their probability; a tooltip shows where their attention peaks."""
    words = []
    for word in caption.words:
        peaks = ", ".join(f"{head} at {seconds:.1f} s" for head, seconds in word.seconds.items())
        hint = escape(f"{word.probability:.0%}" + (f"; {peaks}" if peaks else ""), quote=True)
        style = f"opacity:{0.45 + 0.55 * word.probability:.2f}"
        words.append(f'<span title="{hint}" style="{style}">{escape(word.text)}</span>')
    about = "edited" if caption.edited else in_words(caption.confidence)
    return f"{' '.join(words)} <small>{about}</small>"
