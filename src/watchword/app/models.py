"""`watchword models`."""

import json
from typing import Annotated

import typer


def models(as_json: Annotated[bool, typer.Option("--json", help="Print the list for a program.")] = False) -> None:
    """List the models, what each is, and the settings that a recipe may give it.

    watchword models
    """
    import inspect

    from rich.console import Console
    from rich.table import Table

    from watchword.models import MODELS

    rows = []
    for name, model in MODELS.items():
        module = inspect.getmodule(model)
        paper = (module.__doc__ or "").strip().split("\n\n")
        settings = {key: field.default for key, field in model.Config.model_fields.items()}
        rows.append({"name": name, "about": paper[0], "paper": " ".join(paper[1].split()), "settings": settings})
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("model", "about", "settings", title="[model] name = ...", title_justify="left", show_lines=True)
    for row in rows:
        settings = "\n".join(f"{key} = {value}" for key, value in row["settings"].items())
        table.add_row(row["name"], f"{row['about']}\n[dim]{row['paper']}[/]", settings)
    Console().print(table)
