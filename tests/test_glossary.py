"""The words of `docs/glossary.md`: terms that they replaced are used nowhere any more."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "watchword"
# What each banned word is called now.
BANNED = {
    "film": "video",
    "films": "videos",
    "moment": "time step, frame or window",
    "moments": "time steps, frames or windows",
    "stretch": "segment",
    "stretches": "segments",
    "speaker": "StepModel",
    "speakers": "StepModels",
    "talker": "LogitModel",
    "talkers": "LogitModels",
    "voice": "Captioner",
    "voices": "Captioners",
    "thoughts": "hypotheses",
    "insight": "diagnostics",
    "teller": "caption process",
    "tellers": "caption processes",
    "lookers": "probe pool",
    "gist": "embedding_conditioned",
    "gists": "sentence embeddings",
    "likeness": "KernelRegression, or similarity",
    "glimpse": "frame_keep_rate",
    "blind": "text_only",
    "votes": "MBR samples",
    "voters": "MBR samples",
    "tidy": "RepetitionFilter",
    "eye": "backbone",
    "eyes": "backbones",
    "ear": "audio backbone",
    "ears": "audio backbones",
    "watcher": "sampler",
    "watchers": "samplers",
    "carrier": "packaged file",
    "carriers": "packaged files",
}
# Names of options, tables and files of version 0.1 that are still read, lists of English words, blind studies.
ALLOWED = {
    "tests/test_commands.py",
    "tests/test_features.py",
    "tests/test_glossary.py",
    "tests/test_library.py",
    "tests/test_recipes.py",
    "config.py",
    "features/specs.py",
    "text/parts_of_speech.py",
    "cli/main.py",
    "explain/attention.py",
    "library/database.py",
    "library/library.py",
    "server/storage.py",
    "research/study.py",
}
FILES = sorted(path for folder in ("src", "tests", "benchmarks", "recipes") for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE if path.is_relative_to(SOURCE) else ROOT).as_posix()


def words_of(text: str) -> set[str]:
    """The words of identifiers, comments and texts: `flat_places` and `FlatPlaces` are two words each."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return {word.lower() for word in re.findall(r"[A-Za-z]+", apart)}


def spoken(path: Path) -> list[tuple[int, str]]:
    """(line, text) of every name, text and comment of a file, but for `torch.eye` and tables of old names."""
    source = re.sub(r"\b(torch|np)\.eye\b|^RENAMED = .*$", "identity", path.read_text("utf-8"), flags=re.MULTILINE)
    kinds = {tokenize.NAME, tokenize.STRING, tokenize.COMMENT}
    return [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type in kinds
    ]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_file_uses_a_word_that_the_glossary_replaced(path: Path) -> None:
    if name_of(path) in ALLOWED:
        return
    found = [(line, word) for line, text in spoken(path) for word in sorted(words_of(text) & BANNED.keys())]
    assert not found, "; ".join(f"line {line}: {word} is now {BANNED[word]}" for line, word in found)


def test_the_words_of_names_are_told_apart() -> None:
    assert words_of("FilmInfo, old_films") == {"film", "info", "old", "films"}


# Words that only documents may not use: code keeps some of them for other meanings.
BANNED_IN_DOCUMENTS = BANNED | {
    "sentence": "caption",
    "sentences": "captions",
    "guess": "prediction",
    "guesses": "predictions",
    "describer": "captioner",
    "evidence": "attention",
    "shelf": "storage",
    "scratch": "a committed command",
    "heart": "memorised",
    "nobody": "unknown or missing",
}
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((SOURCE / "captioners").rglob("*.md")),
]
CODE = re.compile(r"^ *```.*?^ *```|`[^`]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
KEPT = re.compile(
    r"sentence (embedding|encoder)s?|one idea a sentence|a sentence that describes|from scratch|\*heart\*",
    re.IGNORECASE,
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_document_uses_a_word_that_the_glossary_replaced(document: Path) -> None:
    """Code, targets of links, and phrases that keep a word are left out."""
    prose = KEPT.sub("", CODE.sub("", document.read_text("utf-8")))
    found = sorted(words_of(prose) & BANNED_IN_DOCUMENTS.keys())
    assert not found, "; ".join(f"{word} is now {BANNED_IN_DOCUMENTS[word]}" for word in found)


# Names of classes, functions and modules of version 0.1 whose words are common English, so that no word can be banned.
BANNED_NAMES = frozenset(
    """
    Thought Describer LoadedCaptioner CaptionerFolder Look Asked Cutting Ledger Likeness Found Teller Door Guard
    TOLD looks_of give_back settle alike elect consensus spread_evenly own_words think signs evidence guess grow
    carry averaging asking growing cutting session memory carrying carriers engines shelf telling looking
    children answers working media describing serving surprise diction wording kinds bias pointing masking
    """.split()
)


def names_of(path: Path) -> set[str]:
    """The module, the folders that it is in, and its classes and functions."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    defined = {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return {path.stem, *path.relative_to(ROOT).parts, *defined}


@pytest.mark.parametrize("path", [path for path in FILES if path.is_relative_to(SOURCE)], ids=name_of)
def test_no_name_is_one_that_the_glossary_replaced(path: Path) -> None:
    assert not names_of(path) & BANNED_NAMES
