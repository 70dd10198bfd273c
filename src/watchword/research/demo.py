"""`watchword research demo`: draw videos, train and test a captioner, in a minute."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = 8


def demo(
    folder: Annotated[Path, typer.Argument(help="Folder of the videos, features and the run.")] = Path(
        "watchword-demo"
    ),
    count: Annotated[int, typer.Option(min=20, help="Number of videos to draw.")] = 400,
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs.")] = 12,
) -> None:
    """Draw videos of moving shapes, train a captioner on them, and caption videos that it was not trained on.

    watchword research demo
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.cli._progress import bar, console, training_bar
    from watchword.cli._shared import score_table
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
            task = progress.add_task("drawing videos", total=count)
            config = ShapesConfig(count=count, distractors=0)
            write_shapes(folder, config, ("appearance", "motion"), lambda _: progress.advance(task))
        recipe = Recipe.read(demo_recipe(folder, epochs), "demo")
        with training_bar() as report:
            train(recipe, run.folder, report)
    elif not (run.folder / "model.safetensors").exists():  # an earlier demo was interrupted
        with training_bar() as report:
            resume(run.folder, report)
    result = evaluate([run], "test", Search(), ("BLEU", "ROUGE_L", "CIDEr"))

    captions_of = {caption.video: caption.text for caption in result.captions}
    clips = {clip.video: clip for clip in read_annotations(captions)}
    table = Table("video", "caption", "reference", title="Test videos", title_justify="left")
    for video in list(captions_of)[:EXAMPLES]:
        table.add_row(video, captions_of[video], clips[video].captions[0])
    Console().print(table)
    Console().print(score_table({f"{len(captions_of)} test videos": result.scores.corpus}, "all test videos"))
    console.print(f"Written into {folder}; next: watchword evaluate {run.folder} --split val")


def demo_recipe(folder: Path, epochs: int) -> dict[str, object]:
    return {
        "about": "Drawn videos, small",
        "data": {
            "captions": folder / "captions.jsonl",
            "store": folder / "store",
            "streams": ("appearance", "motion"),
            "min_count": 1,
            "videos_per_batch": 16,
            "captions_per_video": 6,
        },
        "model": {
            "name": "soft_attention",
            "hidden_size": 128,
            "embedding_size": 64,
            "attention_size": 64,
            "dropout": 0.3,
        },
        "phases": [{"epochs": epochs, "learning_rate": 4e-3, "schedule": {"decay": 0.5, "decay_every": epochs / 3}}],
        "selection": {"every": 3},
    }
