"""`watchword search QUERY`: moments of films, by what was said about them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli.describe import say
from watchword.cli.library import Where, one_line, open_library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from watchword.library import Hit, Library


def search(
    query: Annotated[
        list[str], typer.Argument(metavar="QUERY", help='Words, unfinished ones too; "phrases" and -without in quotes.')
    ],
    meaning: Annotated[bool, typer.Option("--meaning", help="By what is meant: 'puppy' finds dogs.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Extracted to show, the best first.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="Extracted to leave out before.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    path: Where = None,
) -> None:
    """Find moments of the films in the library.

    watchword search dog running

    watchword search '"playing a guitar" -man'     in this order; without men

    watchword search --meaning "a puppy at the sea"
    """
    library = open_library(path, create=False)
    words = " ".join(query)
    if meaning:
        understand(library)
    hits = library.search(words, limit=limit, offset=offset, meaning=meaning)
    total = library.count_hits(words, meaning=meaning)
    if as_json:
        import json

        document = {"query": words, "total": total, "hits": [hit_values(hit, library) for hit in hits]}
        typer.echo(json.dumps(document, indent=1, ensure_ascii=False))
        return
    show(hits, library)
    if not total:
        say(f"nothing found in the {library.count()} films of {library.path}")
    elif total > len(hits):
        say(f"{len(hits)} of {total} moments; more with --limit and --offset")


def understand(library: "Library") -> None:
    """Sentences become vectors once; of many at a time a person sees how far it is."""
    from watchword.cli._progress import bar

    with bar(transient=True) as progress:
        task = progress.add_task("reading sentences", total=None)
        library.understand(lambda done, total: progress.update(task, completed=done, total=total))


def hit_values(hit: "Hit", library: "Library") -> dict[str, object]:
    from watchword.video import shown

    source = source_of(hit, library)
    return {
        "film": hit.film,
        "name": hit.name,
        "source": shown(source) if source else None,
        "start": round(hit.start, 3),
        "end": round(hit.end, 3),
        "sentence": hit.sentence,
        "confidence": round(hit.confidence, 4),
        "pieces": hit.pieces,
    }


def show(hits: "Sequence[Hit]", library: "Library") -> None:
    """A line each; in a terminal what was searched for is bold, and the name opens the film at the second."""
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
    row = library.film(hit.film)
    return row.source if row else None
