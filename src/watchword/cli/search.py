"""`watchword search QUERY`: segments of videos, by their captions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Json, print_message
from watchword.cli.library import LibraryPath, one_line, open_library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from watchword.library import Hit, Library


def search(
    query: Annotated[
        list[str], typer.Argument(metavar="QUERY", help='Words and prefixes; "phrases" and -without in quotes.')
    ],
    semantic: Annotated[bool, typer.Option("--semantic", help="By sentence embedding: 'puppy' finds dogs.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Segments to show, the best first.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="Segments to skip.")] = 0,
    as_json: Json = False,
    path: LibraryPath = None,
) -> None:
    """Search the captions of the library.

    watchword search dog running

    watchword search '"playing a guitar" -man'     a phrase, without men

    watchword search --semantic "a puppy at the sea"
    """
    library = open_library(path, create=False)
    words = " ".join(query)
    if semantic:
        embed(library)
    hits = library.search(words, limit=limit, offset=offset, semantic=semantic)
    total = library.count_hits(words, semantic=semantic)
    if as_json:
        import json

        document = {"query": words, "total": total, "hits": [hit_values(hit, library) for hit in hits]}
        typer.echo(json.dumps(document, indent=1, ensure_ascii=False))
        return
    show(hits, library)
    if not total:
        print_message(f"no match in the {library.count()} videos of {library.path}")
    elif total > len(hits):
        print_message(f"{len(hits)} of {total} segments; more with --limit and --offset")


def embed(library: "Library") -> None:
    """Embeds new captions, with a progress bar."""
    from watchword.cli._progress import bar

    with bar(transient=True) as progress:
        task = progress.add_task("embedding captions", total=None)
        library.embed(lambda done, total: progress.update(task, completed=done, total=total))


def hit_values(hit: "Hit", library: "Library") -> dict[str, object]:
    from watchword.video import shown

    source = source_of(hit, library)
    return {
        "video": hit.video,
        "name": hit.name,
        "source": shown(source) if source else None,
        "start": round(hit.start, 3),
        "end": round(hit.end, 3),
        "caption": hit.caption,
        "confidence": round(hit.confidence, 4),
        "pieces": hit.pieces,
    }


def show(hits: "Sequence[Hit]", library: "Library") -> None:
    """A line each; in a terminal matches are bold, and the name links to the time in the video."""
    from rich.console import Console
    from rich.text import Text

    from watchword.captioning.writers import clock

    console = Console(highlight=False, soft_wrap=True)
    for hit in hits:
        line = Text.assemble(named(hit, library), f"  {clock(hit.start)}  ")
        for text, is_match in hit.pieces:
            line.append(one_line(text), "bold" if is_match else "")
        console.print(line.append(f" ({hit.confidence:.2f})"))


def named(hit: "Hit", library: "Library") -> "Text":
    from rich.text import Text

    source = source_of(hit, library)
    return Text(hit.name, f"link {source.as_uri()}#t={hit.start:.3f}" if source and source.exists() else "")


def source_of(hit: "Hit", library: "Library") -> Path | None:
    row = library.video(hit.video)
    return row.source if row else None
