"""`watchword research tuple-f1`: objects, relations and attributes that captions get right."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from watchword.cli._shared import Json

SPICE_PARTS = {"object": "Object", "relation": "Relation", "attribute": "Attribute"}


def tuple_f1(
    references: Annotated[Path, typer.Argument(help="captions.jsonl, COCO annotations or {id: \\[captions]}")],
    hypotheses: Annotated[list[Path], typer.Argument(help="Files of captions, one for each system.")],
    split: Annotated[str | None, typer.Option(help="The split of captions.jsonl to score against.")] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Score only the videos of both files.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compute the F1 of objects, relations and attributes, by rules and without Java.

    SPICE's parts are shown beside it where Java and SPICE are installed. The two are not comparable.

    watchword research tuple-f1 captions.jsonl runs/a/predictions-test.json runs/b/predictions-test.json --split test
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.metrics.files import match, read_hypotheses, read_references
    from watchword.research.analysis.tuples import KINDS, score_tuples

    known = read_references(references, split)
    answer: dict[str, Any] = {}
    for path in hypotheses:
        both, captions = match(known, read_hypotheses(path), allow_missing=allow_missing)
        row: dict[str, Any] = {"ours": asdict(score_tuples(both, captions))}
        spice = spice_parts(both, captions) if spice_installed() else None
        answer[str(path)] = row | ({"SPICE": spice} if spice else {})
    if as_json:
        print(json.dumps(answer))
        return
    spiced = any("SPICE" in row for row in answer.values())
    table = Table("F1 (x100)", *KINDS, *(f"SPICE {kind}" for kind in KINDS if spiced))
    for name, row in answer.items():
        cells = [row["ours"]["f1"][kind] for kind in KINDS] + [row["SPICE"][kind] for kind in KINDS if spiced]
        table.add_row(name, *(f"{100 * value:.1f}" for value in cells))
    Console().print(table)


def spice_installed() -> bool:
    """Whether SPICE can run: it would download its models itself, and nothing here downloads unasked."""
    spec = find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations or shutil.which("java") is None:
        return False
    library = Path(next(iter(spec.submodule_search_locations))) / "spice" / "lib"
    return all((library / f"stanford-corenlp-3.6.0{suffix}.jar").exists() for suffix in ("", "-models"))


def spice_parts(references: Mapping[str, Sequence[str]], hypotheses: Mapping[str, str]) -> dict[str, float]:
    """The F of SPICE's parts, means over the videos that have the part."""
    import math

    from pycocoevalcap.spice.spice import Spice

    known = {video: list(captions) for video, captions in references.items()}
    _, rows = Spice().compute_score(known, {video: [hypotheses[video]] for video in known})
    parts = {}
    for kind, name in SPICE_PARTS.items():
        values = [float(row[name]["f"]) for row in rows if not math.isnan(float(row[name]["f"]))]
        parts[kind] = sum(values) / max(len(values), 1)
    return parts
