"""`watchword study`: people compare the sentences of two systems (Table 3 of Pu et al. 2018), blind."""

import base64
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.research.study.preference import Judgement, Preference

QUESTIONS = {
    "relevance": "Which sentence tells better what the film shows?",
    "coherence": "Which sentence is better English, whatever the film shows?",
}
SIDES = ("left", "right")
FRAMES, PIXELS = 5, 180  # of a film that is shown as pictures
MIME = {".mp4": "video/mp4", ".m4v": "video/mp4", ".webm": "video/webm", ".ogv": "video/ogg", ".mov": "video/quicktime"}

study = typer.Typer(help="Ask people which of two systems' sentences is better.", no_args_is_help=True)


class Shown(StrEnum):
    films = "films"    # whole, inside the page
    frames = "frames"  # a few pictures
    none = "none"      # sentences alone


@study.command("make")
def make_study(
    first: Annotated[Path, typer.Argument(help="Predictions of one system, such as a baseline.")],
    second: Annotated[Path, typer.Argument(help="Predictions of the other, for the same videos.")],
    output: Annotated[Path, typer.Option(help="The page.")] = Path("study.html"),
    clips: Annotated[int, typer.Option(min=1, help="So many videos, drawn at random; 100 in the paper.")] = 100,
    films: Annotated[Path | None, typer.Option(help="The folder of the films, VIDEO.mp4 and so on.")] = None,
    show: Annotated[Shown, typer.Option(help="What is seen of the films.")] = Shown.frames,
    names: Annotated[str, typer.Option(help="What the table calls the systems.")] = "Baseline,DualAFR",
    only_different: Annotated[bool, typer.Option(help="Leave out videos of which both say the same.")] = False,
    seed: Annotated[int, typer.Option(help="Draws the videos, their order and the sides.")] = 0,
) -> None:
    """Make a page on which a person compares two sentences of each film without knowing whose they are.

    The page is one file, works without a network and saves the answers as a file to send back. Which side is whose is
    in OUTPUT.key.json: keep it for `watchword study table`, do not send it along.

    watchword study make baseline/predictions-test.json ours/predictions-test.json --films clips
    """
    from watchword.atomic_io import write_whole
    from watchword.metrics.files import read_hypotheses
    from watchword.research.study.page import study_page

    if show is not Shown.none and films is None:
        raise WatchwordError("say where the films are, --films DIR, or --show none for the sentences alone")
    systems = [name.strip() for name in names.split(",")]
    if len(systems) != 2 or not all(systems) or systems[0] == systems[1]:
        raise WatchwordError(f"--names is {names!r}, expected two, such as Baseline,Ours")
    key, items = draw_study(read_hypotheses(first), read_hypotheses(second), clips, only_different, seed)
    for item, row in zip(items, key["items"], strict=True):
        item |= seen_of(row["video"], films, show)
    key |= {"first": systems[0], "second": systems[1]}
    page = study_page({
        "study": key["study"], "questions": [{"name": name, "text": text} for name, text in QUESTIONS.items()],
        "items": items,
    })  # fmt: skip
    secret = output.with_suffix(".key.json")
    write_whole(secret, json.dumps(key, indent=1) + "\n")
    write_whole(output, page)
    typer.echo(f"{output}  {len(items)} films, {len(page) / 1e6:.1f} MB: send it to people\n{secret}  keep it")


@study.command("table")
def table_study(
    key: Annotated[Path, typer.Argument(help="The .key.json of the study.")],
    answers: Annotated[list[Path], typer.Argument(help="Files that people saved and sent back.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the table for a program.")] = False,
) -> None:
    """Read people's answers back into the paper's Table 3, with 95 % intervals over videos.

    watchword study table study.key.json answers-*.json
    """
    from dataclasses import asdict

    from watchword.research.study.preference import preferences

    secret = _read(key)
    if not isinstance(secret, dict) or not {"study", "first", "second", "items"} <= set(secret):
        raise WatchwordError(f"{key} is not the key of a study: watchword study make writes it beside the page")
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
        raise WatchwordError(f"only {len(shared)} videos have two sentences to compare: ask for fewer, --clips N")
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


def seen_of(video: str, films: Path | None, show: Shown) -> dict[str, Any]:
    """A film, whole or as some of its frames, as addresses that hold the data themselves."""
    if show is Shown.none or films is None:
        return {"film": None, "frames": []}
    found = sorted(path for path in films.iterdir() if path.stem == video and path.is_file()) if films.is_dir() else []
    if not found:
        raise WatchwordError(f"there is no film of {video} in {films}: name their folder, or --show none")
    film = found[0]
    if show is Shown.films:
        if film.suffix.lower() not in MIME:
            raise WatchwordError(f"browsers do not play {film.name}: --show frames, or make it an .mp4")
        return {"film": _address(MIME[film.suffix.lower()], film.read_bytes()), "frames": []}
    from io import BytesIO

    from PIL import Image

    from watchword.video import ShortSide, Uniform, read_frames

    frames = []
    for picture in read_frames(film, Uniform(FRAMES), ShortSide(PIXELS)).pictures:
        buffer = BytesIO()
        Image.fromarray(picture).save(buffer, "JPEG", quality=80)
        frames.append(_address("image/jpeg", buffer.getvalue()))
    return {"film": None, "frames": frames}


def read_judgements(key: Mapping[str, Any], files: Mapping[str, Any]) -> "list[Judgement]":
    """What people answered, with the sides turned back into systems; a file that does not belong here is refused."""
    from watchword.research.study.preference import Judgement

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
            known = type(item) is int and 0 <= item < len(key["items"]) and question in QUESTIONS
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


def print_table(found: "Mapping[str, Preference]", first: str, second: str, people: int) -> None:
    from rich.console import Console
    from rich.table import Table

    some = next(iter(found.values()))
    title = f"{people} people, {some.videos} films, {sum(one.answers for one in found.values())} answers"
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


def _address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise WatchwordError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise WatchwordError(f"{path} is no JSON file: {error}") from error
