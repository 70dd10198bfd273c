"""Links of the documents lead to files and headings; their commands, also those that no test runs, are valid."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from watchword.cli.main import RENAMED_COMMANDS, app
from watchword.config import shipped_recipes

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)


def anchors(document: Path) -> set[str]:
    """The fragments that GitHub and the documentation site give to the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", document.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(document: Path) -> list[str]:
    found = LINK.findall(FENCE.sub("", document.read_text("utf-8")))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    for link in links(document):
        path, _, fragment = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{link}: no such file"
        assert target.is_relative_to(ROOT), f"{link}: outside of the project"
        if fragment and target.suffix == ".md":
            assert fragment in anchors(target), f"{link}: no such heading"


def test_every_command_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
    for name in commands():
        assert f"watchword {name}" in page, f"docs/reference/commands.md lacks `watchword {name}`"


def test_the_reference_lists_no_other_command() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
    listed = set(re.findall(r"^\| \[?`watchword ([a-z0-9 -]+)`", page, re.MULTILINE))
    assert listed <= commands() | {"library", "weights", "research study"}


def commands() -> set[str]:
    """Every command below `watchword`; the commands of a group such as `features` with its name."""
    found = set()
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        below = getattr(command, "commands", {})
        if name in {"features", "research", "data"}:
            found |= {f"{name} {one}" for one in below}
        else:
            found.add(name)
    return found


def command_lines(document: Path) -> list[list[str]]:
    """The arguments of every `watchword ...` in a code block, lines that end in a backslash joined."""
    code = "\n".join(match[0] for match in FENCE.finditer(document.read_text("utf-8"))).replace("\\\n", " ")
    lines = [line.strip().removeprefix("$ ") for line in code.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("watchword ")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_have_the_names_and_options_of_this_version(document: Path) -> None:
    for words in command_lines(document):
        command = get_command(app)
        rest = list(words)
        while rest and rest[0] in getattr(command, "commands", {}):
            command = command.commands[rest.pop(0)]  # type: ignore[attr-defined]
        assert not hasattr(command, "commands"), f"no such command: {words}"
        if "--help" not in rest:
            command.make_context("watchword", rest)  # an unknown option or a missing argument is an error


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_scripts_and_recipes_that_a_document_names_are_there(document: Path) -> None:
    if document.name == "CHANGELOG.md":
        return
    named = re.findall(r"\b(?:benchmarks|recipes|examples)/\w+\.(?:py|toml|ipynb|conf)\b", document.read_text("utf-8"))
    assert not [name for name in named if not (ROOT / name).exists()]
    trained = [words[1] for words in command_lines(document) if words[0] == "train" and "/" in words[1]]
    shown = re.findall(r"`((?:msvd|msrvtt|shapes)/\w+)`", document.read_text("utf-8"))
    assert {*trained, *shown} - {name for name in trained if name.endswith(".toml")} <= shipped_recipes().keys()


FOLDERS = ("src", "tests", "benchmarks", "recipes", "docs")
FILES = [f"/{path.relative_to(ROOT).as_posix()}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
BENCHMARKS = "".join(path.read_text("utf-8") for path in sorted(ROOT.glob("benchmarks/*.py")))
OTHER_OPTIONS = {"--help", "--logdir", *re.findall(r"\"(--[a-z-]+)\"", BENCHMARKS)}


def options(command: Any) -> set[str]:
    """All options of a command and of those below it."""
    own = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return own.union(*(options(one) for one in getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_in_prose_has_the_names_of_this_version(document: Path) -> None:
    """Options, commands and source files between backquotes, but for those of other tools and of our benchmarks."""
    if document.name == "CHANGELOG.md":
        return
    known = options(get_command(app)) | OTHER_OPTIONS
    for code in re.findall(r"`([^`\n]+)`", FENCE.sub("", document.read_text("utf-8"))):
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", code)) <= known, code
        assert not any(re.match(rf"(watchword )?{old}( --|$)", code) for old in old_commands()), code
        for name in re.findall(r"[\w/]+\.py\b", code):
            assert "NAME" in name or any(file.endswith(f"/{name}") for file in FILES), code


@pytest.mark.parametrize("document", sorted(ROOT.glob("docs/papers/*.md")), ids=lambda path: path.name)
def test_names_of_code_on_a_papers_page_are_in_the_source(document: Path) -> None:
    """Functions, classes and settings between backquotes: `Fusion`, `Stats.step`, `location_weights`."""
    files = [path for folder in ("src", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    known = {word for file in files for word in re.findall(r"\w+", file.read_text("utf-8"))}
    named = re.findall(r"`([A-Za-z_][\w.]*)`", FENCE.sub("", document.read_text("utf-8")))
    assert not [code for code in named if not set(code.split(".")) <= known | {"py"}]


def old_commands() -> set[str]:
    """Names of version 0.1 that are no name of anything else now."""
    return {old for old, new in RENAMED_COMMANDS.items() if new != f"research {old}"} - {"kinds", "order"}
