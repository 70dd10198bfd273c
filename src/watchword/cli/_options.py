"""Options that mean the same in several verbs."""

from pathlib import Path
from typing import Annotated

import typer

Films = Annotated[Path | None, typer.Option(help="The film, or a folder of films, if not beside the captions.")]
Model = Annotated[str | None, typer.Option(help="A run of yours, or a captioner by name; the best that can work here.")]
Timeline = Annotated[
    bool | None,
    typer.Option("--timeline/--whole", help="Shot by shot, or one sentence; a film of over 40 s is a timeline."),
]
Beam = Annotated[int, typer.Option(min=1, max=100, help="Sentences kept in the search.")]
