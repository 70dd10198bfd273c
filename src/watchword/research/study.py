"""`watchword research study`: people compare the captions of two systems (Table 3 of Pu et al. 2018), blind."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchword.cli._shared import Json
from watchword.documents import parse_json
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.metrics.statistics import Interval

QUESTIONS = {
    "relevance": "Which caption describes the video better?",
    "coherence": "Which caption is better English, whatever the video shows?",
}
SIDES = ("left", "right")
FRAMES, PIXELS = 5, 180  # of a video that is shown as frames
EMBEDDED = (".mp4", ".m4v", ".webm", ".ogv", ".mov")  # played by browsers
OUTCOMES = ("first", "second", "same")  # the preferred system, or neither

study = typer.Typer(name="study", help="Compare two systems by a blind study with people.", no_args_is_help=True)


class Shown(StrEnum):
    videos = "videos"  # embedded in the page
    frames = "frames"  # a few frames
    none = "none"  # captions only


@dataclass(frozen=True)
class Judgement:
    """One person's answer to one question about one video."""

    video: str
    question: str
    outcome: str  # one of OUTCOMES


@dataclass(frozen=True)
class Preference:
    """The answers to one question."""

    answers: int
    videos: int
    shares: dict[str, float]  # of OUTCOMES, they add up to 1
    intervals: "dict[str, Interval]"  # of the shares
    lead: "Interval"  # of the second's share less the first's


@study.command("make")
def make_study(
    first: Annotated[Path, typer.Argument(help="Predictions of one system, such as a baseline.")],
    second: Annotated[Path, typer.Argument(help="Predictions of the other, for the same videos.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("study.html"),
    clips: Annotated[int, typer.Option(min=1, help="Number of videos, drawn at random; 100 in the paper.")] = 100,
    videos: Annotated[Path | None, typer.Option(help="The folder of the videos, ID.mp4 and so on.")] = None,
    show: Annotated[Shown, typer.Option(help="What to show of the videos.")] = Shown.frames,
    names: Annotated[str, typer.Option(help="The names of the systems.")] = "Baseline,DualAFR",
    only_different: Annotated[
        bool, typer.Option("--only-different", help="Leave out videos with two equal captions.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
) -> None:
    """Make a page on which a person compares two captions of each video without knowing the systems.

    The page is one file, works offline and saves the answers as a file to send back. OUTPUT.key.json says which side
    is which system: keep it for `watchword research study table`, and do not send it along.

    watchword research study make baseline/predictions-test.json ours/predictions-test.json --videos clips
    """
    from watchword.atomic_io import check_outputs, write_whole
    from watchword.metrics.files import read_hypotheses
    from watchword.research.study_page import study_page

    if show is not Shown.none and videos is None:
        raise WatchwordError("name the folder of the videos, --videos DIR, or use --show none for captions only")
    systems = [name.strip() for name in names.split(",")]
    if len(systems) != 2 or not all(systems) or systems[0] == systems[1]:
        raise WatchwordError(f"--names is {names!r}, expected two, such as Baseline,Ours")
    secret = output.with_suffix(".key.json")
    check_outputs([output, secret], [first, second])
    key, items = draw_study(read_hypotheses(first), read_hypotheses(second), clips, only_different, seed)
    for item, row in zip(items, key["items"], strict=True):
        item |= media_of(row["video"], videos, show)
    key |= {"first": systems[0], "second": systems[1]}
    page = study_page(
        {
            "study": key["study"],
            "questions": [{"name": name, "text": text} for name, text in QUESTIONS.items()],
            "items": items,
        }
    )
    write_whole(secret, json.dumps(key, indent=1) + "\n")
    write_whole(output, page)
    typer.echo(f"{output}  {len(items)} videos, {len(page) / 1e6:.1f} MB: send it to people\n{secret}  keep it")


@study.command("table")
def table_study(
    key: Annotated[Path, typer.Argument(help="The .key.json of the study.")],
    answers: Annotated[list[Path], typer.Argument(help="The files that people sent back.")],
    as_json: Json = False,
) -> None:
    """Read people's answers back into the paper's Table 3, with 95 % intervals over videos.

    watchword research study table study.key.json answers-*.json
    """
    from dataclasses import asdict

    secret = read_key(key)
    judgements = read_judgements(secret, {str(path): _read(path) for path in answers})
    found = preferences(judgements)
    if as_json:
        print(json.dumps({name: asdict(one) for name, one in found.items()}))
    else:
        print_table(found, secret["first"], secret["second"], len(answers))


def draw_study(
    first: Mapping[str, str], second: Mapping[str, str], clips: int, only_different: bool, seed: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The key, which stays here, and the items as the page shows them, without the name of a video or a system."""
    import hashlib

    import numpy as np

    shared = sorted(video for video in first if video in second)
    if only_different:
        shared = [video for video in shared if first[video] != second[video]]
    if len(shared) < clips:
        raise WatchwordError(f"only {len(shared)} videos have two captions to compare: ask for fewer, --clips N")
    random = np.random.default_rng(seed)
    chosen = [shared[row] for row in random.permutation(len(shared))[:clips]]
    sides = [SIDES[int(side)] for side in random.integers(0, 2, clips)]  # where the first system stands
    rows = [{"video": video, "first_is": side} for video, side in zip(chosen, sides, strict=True)]
    items = []
    for video, side in zip(chosen, sides, strict=True):
        pair = (first[video], second[video])
        left, right = pair if side == "left" else pair[::-1]
        items.append({"left": left, "right": right})
    name = hashlib.sha256(json.dumps([rows, items, seed]).encode()).hexdigest()[:16]
    return {"study": name, "items": rows}, items


def media_of(video: str, videos: Path | None, show: Shown) -> dict[str, Any]:
    """A video, or some of its frames, as data URLs."""
    if show is Shown.none or videos is None:
        return {"video": None, "frames": []}
    found = (
        sorted(path for path in videos.iterdir() if path.stem == video and path.is_file()) if videos.is_dir() else []
    )
    if not found:
        raise WatchwordError(f"{videos} has no video {video}: name another folder, or use --show none")
    path = found[0]
    if show is Shown.videos:
        from watchword.video.formats import VIDEO_TYPES

        if path.suffix.lower() not in EMBEDDED:
            raise WatchwordError(f"browsers do not play {path.name}: --show frames, or make it an .mp4")
        return {"video": _data_url(VIDEO_TYPES[path.suffix.lower()], path.read_bytes()), "frames": []}
    from io import BytesIO

    from PIL import Image

    from watchword.video import ShortSide, Uniform, read_frames

    frames = []
    for picture in read_frames(path, Uniform(FRAMES), ShortSide(PIXELS)).pictures:
        buffer = BytesIO()
        Image.fromarray(picture).save(buffer, "JPEG", quality=80)
        frames.append(_data_url("image/jpeg", buffer.getvalue()))
    return {"video": None, "frames": frames}


def read_key(path: Path) -> dict[str, Any]:
    """Which side is which system; only that the values are there and of their kinds is checked."""
    key = _read(path)
    try:
        names = [key["study"], key["first"], key["second"], *(item["video"] for item in key["items"])]
        sides = [item["first_is"] for item in key["items"]]
        is_key = all(isinstance(name, str) for name in names) and all(side in SIDES for side in sides)
    except (KeyError, TypeError):
        is_key = False
    if not is_key:
        raise WatchwordError(
            f"{path} is not the key of a study: watchword research study make writes it beside the page"
        )
    return dict(key)


def read_judgements(key: Mapping[str, Any], files: Mapping[str, Any]) -> list[Judgement]:
    """The answers, with sides turned back into systems; files of another study are refused."""
    found: list[Judgement] = []
    raters: dict[str, str] = {}
    for name, content in files.items():
        if not isinstance(content, dict) or not isinstance(content.get("answers"), list):
            raise WatchwordError(f"{name} holds no answers of a study")
        if content.get("study") != key["study"]:
            raise WatchwordError(f"{name} answers another study than this key's: find its own key")
        rater = str(content.get("rater"))
        if rater in raters:
            raise WatchwordError(f"{name} and {raters[rater]} are of one person: give only the later")
        raters[rater] = name
        seen: set[tuple[int, str]] = set()
        for row in content["answers"]:
            parts: dict[str, Any] = row if isinstance(row, dict) else {}
            item, question, choice = parts.get("item"), parts.get("question"), parts.get("choice")
            is_question = isinstance(question, str) and question in QUESTIONS
            known = type(item) is int and 0 <= item < len(key["items"]) and is_question
            if not known or choice not in (*SIDES, "same") or (item, question) in seen:
                raise WatchwordError(f"{name} is damaged: an answer in it is {row!r:.80}")
            assert isinstance(item, int)
            assert isinstance(question, str)
            seen.add((item, question))
            secret = key["items"][item]
            winner = "same" if choice == "same" else "first" if choice == secret["first_is"] else "second"
            found.append(Judgement(secret["video"], question, winner))
    if not found:
        raise WatchwordError("the files hold no answer at all")
    return found


def preferences(
    judgements: Sequence[Judgement], samples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> dict[str, Preference]:
    """By question, in the order in which questions first come.

    Intervals are percentiles over videos drawn with replacement, each with all its answers: people who look at the
    same two captions answer alike, so answers are not independent of each other, videos are.
    """
    import numpy as np

    from watchword.metrics.statistics import Interval

    found = {}
    for question in dict.fromkeys(one.question for one in judgements):
        own = [one for one in judgements if one.question == question]
        videos = list(dict.fromkeys(one.video for one in own))
        row = {video: number for number, video in enumerate(videos)}
        counts = np.zeros((len(videos), len(OUTCOMES)))
        for one in own:
            if one.outcome not in OUTCOMES:
                raise WatchwordError(f"an answer about {one.video} is {one.outcome!r}, expected {', '.join(OUTCOMES)}")
            counts[row[one.video], OUTCOMES.index(one.outcome)] += 1
        draws = np.random.default_rng(seed).multinomial(len(videos), np.full(len(videos), 1 / len(videos)), samples)
        drawn = draws @ counts
        shares = drawn / drawn.sum(1, keepdims=True)  # (samples, 3)
        limits = [50 * (1 - confidence), 50 * (1 + confidence)]
        spans = {}
        for name, values in zip((*OUTCOMES, "lead"), (*shares.T, shares[:, 1] - shares[:, 0]), strict=True):
            low, high = np.percentile(values, limits)
            spans[name] = Interval(float(low), float(high), confidence)
        lead = spans.pop("lead")
        total = counts.sum(0) / counts.sum()
        named = dict(zip(OUTCOMES, total.tolist(), strict=True))
        found[question] = Preference(len(own), len(videos), named, spans, lead)
    return found


def print_table(found: Mapping[str, Preference], first: str, second: str, people: int) -> None:
    from rich.console import Console
    from rich.table import Table

    some = next(iter(found.values()))
    title = f"{people} people, {some.videos} videos, {sum(one.answers for one in found.values())} answers"
    questions: Sequence[str] = [question for question in QUESTIONS if question in found]
    table = Table("", *(question.capitalize() for question in questions), title=title, title_justify="left")
    for outcome, label in (("first", f"{first} wins"), ("second", f"{second} wins"), ("same", "Not distinguishable")):
        cells = []
        for question in questions:
            one = found[question]
            span = one.intervals[outcome]
            cells.append(f"{one.shares[outcome]:.2%}  ({span.low:.1%} to {span.high:.1%})")
        table.add_row(label, *cells)
    leads = [found[question].lead for question in questions]
    table.add_row(f"{second} less {first}", *(f"({lead.low:+.1%} to {lead.high:+.1%})" for lead in leads))
    Console().print(table)


def _data_url(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _read(path: Path) -> Any:
    try:
        return parse_json(path.read_text("utf-8"))
    except OSError as error:
        raise WatchwordError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise WatchwordError(f"{path} is no JSON file: {error}") from error
