"""`watchword models`."""

import json

from watchword.cli._shared import Json


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
