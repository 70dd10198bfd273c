"""`watchword calibrate`."""

from pathlib import Path
from typing import Annotated

import typer


def calibrate(
    captioner: Annotated[Path, typer.Argument(help="A run, or a captioner's folder.")],
    captions: Annotated[Path | None, typer.Option(help="What people said; the run's own if not given.")] = None,
    store: Annotated[Path | None, typer.Option(help="Features of the videos; the run's own if not given.")] = None,
    split: Annotated[str, typer.Option(help="Videos that it was not trained on.")] = "val",
) -> None:
    """Make a captioner's confidence mean something: how likely its sentence is as good as a person's.

    watchword calibrate runs/mine
    """
    from watchword.captioning.bundle import find_captioner
    from watchword.captioning.calibrate import calibrate as fit_calibration
    from watchword.cli._progress import bar, console
    from watchword.data.benchmarks import captions_path, store_path

    folder = find_captioner(captioner)
    with bar(transient=True) as progress:
        task = progress.add_task(f"describing {split}", total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        data = folder.recipe.data
        captions, store = captions or captions_path(data), store or store_path(data)
        found = fit_calibration(folder, captions, store, split, report)
    found.calibration.save(folder.folder)
    about = found.calibration.about
    console.print(
        f"{about['videos']} videos: its sentences are as good as those of {about['mean_share']:.0%} of people, the "
        f"surer half {about['mean_share_of_the_surer_half']:.0%}; rank correlation {about['rank_correlation']:.2f} "
        f"(out of fold). Written into {folder.folder}"
    )
