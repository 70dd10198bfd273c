"""`watchword features categories CAPTIONS --store DIR`."""

from pathlib import Path
from typing import Annotated

import typer


def categories(
    captions: Annotated[Path, typer.Argument(help="captions with categories: MSR-VTT's, or your own")],
    store: Annotated[Path, typer.Option(help="the folder that keeps features; made if it is not there")],
) -> None:
    """Make the stream `category` of what the annotation files each clip under (MSR-VTT: 20 categories).

    watchword features categories videodatainfo.json --store features
    """
    from watchword.data.annotations import read_annotations
    from watchword.data.categories import write_categories
    from watchword.features.store import Store

    clips = read_annotations(captions)
    count = write_categories(clips, Store(store))
    typer.echo(f"category of {len(clips):,} clips, {count} categories: data.streams may name it beside others")
