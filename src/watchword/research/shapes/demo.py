"""`watchword demo`: the whole way in a minute, on films that are drawn for it."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = 8


def demo(
    folder: Annotated[Path, typer.Argument(help="Where films, features and the run go.")] = Path("watchword-demo"),
    films: Annotated[int, typer.Option(min=20, help="Films to draw.")] = 400,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over their captions.")] = 12,
) -> None:
    """Draw films of moving shapes, train a captioner on them, and read what it says about films it has never seen.

    watchword demo
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.cli._progress import bar, console, training_bar
    from watchword.cli._tables import score_table
    from watchword.config import Recipe
    from watchword.data.annotations import read_annotations
    from watchword.research.shapes.folder import write_shapes
    from watchword.research.shapes.videos import ShapesConfig
    from watchword.training import Run, resume, train
    from watchword.training.evaluation import Search, evaluate

    run = Run(folder / "run")
    captions = folder / "captions.jsonl"
    if not (run.folder / "recipe.toml").exists():
        with bar(transient=True) as progress:
            task = progress.add_task("drawing films", total=films)
            config = ShapesConfig(films=films, distractors=0)
            write_shapes(folder, config, ("appearance", "motion"), lambda _: progress.advance(task))
        recipe = Recipe.read(demo_recipe(folder, epochs), "demo")
        with training_bar() as report:
            train(recipe, run.folder, report)
    elif not (run.folder / "model.safetensors").exists():  # an earlier demo was cut off
        with training_bar() as report:
            resume(run.folder, report)
    result = evaluate([run], "test", Search(), ("BLEU", "ROUGE_L", "CIDEr"))

    said = {caption.video: caption.text for caption in result.captions}
    clips = {clip.video: clip for clip in read_annotations(captions)}
    table = Table("film", "watchword says", "a person would say", title="Films it has never seen", title_justify="left")
    for video in list(said)[:EXAMPLES]:
        table.add_row(video, said[video], clips[video].captions[0])
    Console().print(table)
    Console().print(score_table({f"{len(said)} test films": result.scores.corpus}, "all films it has never seen"))
    console.print(f"All of it is in {folder}; next: watchword evaluate {run.folder} --split val")


def demo_recipe(folder: Path, epochs: int) -> dict[str, object]:
    return {
        "about": "Drawn films, small",
        "data": {
            "captions": folder / "captions.jsonl", "store": folder / "store", "streams": ("appearance", "motion"),
            "min_count": 1, "videos_per_batch": 16, "captions_per_video": 6,
        },
        "model": {"name": "soft_attention", "hidden_size": 128, "embedding_size": 64, "attention_size": 64,
                  "dropout": 0.3},
        "phases": [{"epochs": epochs, "learning_rate": 4e-3, "schedule": {"decay": 0.5, "decay_every": epochs / 3}}],
        "selection": {"every": 3},
    }  # fmt: skip
