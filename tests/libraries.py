"""Videos for libraries, and what tests and their child processes do with them: without a network."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

from watchword.captioning.description import Caption, Description, Segment, Word
from watchword.library import Library

ROOT = Path(__file__).parents[1]


def said(text: str, confidence: float = 0.5) -> Caption:
    return Caption(tuple(Word(word, 0.123456, {"appearance": 1.23456}) for word in text.split(" ")), confidence)


def video(*captions: str | Caption, path: str = "holiday/beach.mp4") -> Description:
    """A segment of ten seconds for each caption."""
    segments = tuple(
        Segment(10.0 * place, 10.0 * place + 10, (text if isinstance(text, Caption) else said(text),))
        for place, text in enumerate(captions)
    )
    return Description(Path(path), 10.0 * max(1, len(segments)), "light", segments)


def add(library: Library, *captions: str | Caption, identity: str = "", **more: Any) -> int:
    about = {"name": "beach.mp4", "identity": identity or repr(captions), "source": None, "explanation": None} | more
    return library.add(video(*captions), **about)


def found(library: Library, query: str, **more: Any) -> list[str]:
    return [hit.caption for hit in library.search(query, **more)]


class Stub:
    """A captioner with given captions, one for each segment; it records its calls."""

    name, hint = "stub", ""

    def __init__(self, *captions: str, stop_after: int = 99) -> None:
        self.captions, self.stop_after = captions, stop_after
        self.calls: list[tuple[str, float]] = []

    def caption_video(
        self, captioner: object, path: Path, options: object, *, seconds: float, start: float, warnings: list[str]
    ) -> Iterator[Segment]:
        """In place of the pipeline's."""
        self.calls.append((path.name, start))
        if "bad" in path.name:
            raise RuntimeError("boom")
        step = seconds / len(self.captions)
        for number, caption in enumerate(self.captions):
            if step * number >= start - 1e-3:
                if number == self.stop_after:
                    print("in the middle", flush=True)
                    signal.pause()
                yield Segment(step * number, step * (number + 1), (said(caption),))


def child(script: str, path: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A process of its own that does something with the library `path`."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    head = "import os, sys, signal\nfrom pathlib import Path\nfrom tests.libraries import *\npath = Path(sys.argv[1])\n"
    words = [sys.executable, "-c", head + dedent(script), str(path), *arguments]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
