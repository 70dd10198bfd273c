"""`--films`, the same for every verb that draws on films of a data set."""

from pathlib import Path
from typing import Annotated

import typer

Films = Annotated[Path | None, typer.Option(help="The film, or a folder of films, if not beside the captions.")]
