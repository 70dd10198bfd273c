"""Films for libraries, and what tests and their child processes do with them: without a network."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

from watchword.captioning.description import Description, Sentence, Shot, Word
from watchword.captioning.options import Asked
from watchword.library import Library

ROOT = Path(__file__).parents[1]


def said(text: str, confidence: float = 0.5) -> Sentence:
    return Sentence(tuple(Word(word, 0.123456, {"appearance": 1.23456}) for word in text.split(" ")), confidence)


def film(*sentences: str | Sentence, path: str = "holiday/beach.mp4") -> Description:
    """A shot of ten seconds for each sentence."""
    shots = tuple(
        Shot(10.0 * place, 10.0 * place + 10, (text if isinstance(text, Sentence) else said(text),))
        for place, text in enumerate(sentences)
    )
    return Description(Path(path), 10.0 * max(1, len(shots)), "light", shots)


def add(library: Library, *sentences: str | Sentence, identity: str = "", **more: Any) -> int:
    about = {"name": "beach.mp4", "identity": identity or repr(sentences), "source": None, "evidence": None} | more
    return library.add(film(*sentences), **about)


def found(library: Library, query: str, **more: Any) -> list[str]:
    return [hit.sentence for hit in library.search(query, **more)]


class Stub:
    """A describer that says what it is told, shot by shot, and remembers what it was asked."""

    name, hint = "stub", ""

    def __init__(self, *sentences: str, stop_after: int = 99) -> None:
        self.sentences, self.stop_after = sentences, stop_after
        self.asked: list[tuple[str, float]] = []

    def shots(
        self, path: Path, seconds: float, warnings: list[str], asked: Asked, start: float = 0.0
    ) -> Iterator[Shot]:
        self.asked.append((path.name, start))
        if "bad" in path.name:
            raise RuntimeError("boom")
        step = seconds / len(self.sentences)
        for number, sentence in enumerate(self.sentences):
            if step * number >= start - 1e-3:
                if number == self.stop_after:
                    print("in the middle", flush=True)
                    signal.pause()
                yield Shot(step * number, step * (number + 1), (said(sentence),))


def child(script: str, path: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A process of its own that does something with the library `path`."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    head = "import os, sys, signal\nfrom pathlib import Path\nfrom tests.libraries import *\npath = Path(sys.argv[1])\n"
    words = [sys.executable, "-c", head + dedent(script), str(path), *arguments]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
