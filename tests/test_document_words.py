"""The documents use the terms of docs/glossary.md: words that it replaced occur nowhere in their text."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*.md"))]
CODE = re.compile(r"^ *```.*?^ *```|`[^`]*`|\]\([^)]*\)|!\[[^\]]*\]", re.MULTILINE | re.DOTALL)
REPLACED = {
    "film": "video",
    "moment": "time step",
    "stretch": "segment",
    "sentence": "caption",
    "gist": "embedding-conditioned captioner",
    "vote": "MBR sample",
    "voter": "MBR sample",
    "guess": "prediction",
    "glimpse": "frame keep rate",
    "voice": "captioner",
    "speaker": "captioner",
    "eye": "backbone",
    "ear": "backbone",
    "looker": "probe process",
    "teller": "caption process",
    "describer": "captioner",
    "shelf": "storage",
    "scratch script": "a committed command",
    "by heart": "memorised",
    "nobody": "unknown, or not available",
}
ALLOWED = re.compile(r"sentence (embedding|encoder)s?|one idea a sentence|a sentence that describes", re.IGNORECASE)


def prose(document: Path) -> str:
    """A document without its code, its links' targets and the phrases that keep a word."""
    return ALLOWED.sub("", CODE.sub("", document.read_text("utf-8")))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_document_uses_the_terms_of_the_glossary(document: Path) -> None:
    found = {
        word: term
        for word, term in REPLACED.items()
        if re.search(rf"\b{word}(s|es)?\b", prose(document), re.IGNORECASE)
    }
    assert not found, f"write instead: {found}"
