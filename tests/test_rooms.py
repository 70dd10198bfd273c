"""The folder tree is the architecture: who may import whom."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "watchword"

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "records": set(),
    "tensors": set(),
    "files": {"errors"},
    "carriers": {"errors"},
    "config": {"errors"},
    "text": {"errors"},
    "layers": {"tensors"},
    "media": {"errors", "records"},
    "store": {"errors", "records", "files"},
    "backbones": {"errors", "files", "carriers"},
    "features": {"errors", "records", "config", "media", "store", "backbones"},
    "metrics": {"errors", "text", "carriers"},
    "decoding": {"tensors"},
    "models": {"errors", "files", "tensors", "config", "text", "layers"},
    "losses": {"errors", "config", "tensors", "text", "decoding", "metrics"},
    "data": {"errors", "records", "tensors", "config", "text", "store"},
    "training": {
        "errors", "files", "records", "tensors", "config", "text", "store", "layers",
        "metrics", "decoding", "models", "losses", "data",
    },
    "captioning": {
        "errors", "files", "records", "tensors", "config", "text", "media", "store", "backbones", "carriers",
        "features", "metrics", "decoding", "models", "data", "training", "explain",
    },
    "explain": {"errors", "records", "media"},
    "server": {"errors", "media", "captioning", "library"},
    "library": {"errors", "media", "backbones", "captioning"},
}  # fmt: skip
WITHOUT_TORCH = {
    "errors", "records", "files", "carriers", "config", "text", "media", "store", "metrics", "explain", "library",
    "server",
}  # fmt: skip


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Dotted names of every module that a file imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the whole name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return found


TOP = {"cli", "research"}  # they may import anything, and nothing below imports them
FILES = sorted(path for path in SOURCE.rglob("*.py") if room_of(path) not in TOP | {"__init__", "__main__"})


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_the_rooms_its_room_may_know(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} is a new room: say in this table what it may import"
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "watchword" and len(parts) > 1:
            assert parts[1] in MAY_IMPORT[room] | {room}, f"{path.name} of room {room} must not import {name}"
        if room in WITHOUT_TORCH:
            assert parts[0] != "torch", f"{path.name} of room {room} must not know torch"


def test_the_table_in_the_architecture_is_this_one() -> None:
    text = (SOURCE.parents[1] / "docs" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*?) \|$", text, re.MULTILINE)
    documented = {room: set(words.replace("-", "").split()) for room, words in rows if room not in TOP}
    there = {room_of(path) for path in FILES}
    assert documented == {room: MAY_IMPORT[room] for room in MAY_IMPORT if room in there}


def test_nothing_below_imports_the_commands_or_research() -> None:
    top = tuple(f"watchword.{room}" for room in TOP)
    assert not any(name.startswith(top) for path in FILES for name in imports_of(path))


def test_the_tree_has_no_attic() -> None:
    attic = {"utils", "util", "common", "misc", "helpers"}
    assert not attic & {path.stem for path in SOURCE.rglob("*")}
