"""`watchword captioner`, `calibrate` and `export`: the captioner that is used, and what makes one of a run."""

from pathlib import Path
from typing import Annotated

import typer

from watchword.cli._shared import print_message
from watchword.errors import WatchwordError

NO_CHOICE = "default"


def captioner(
    name: Annotated[
        str | None, typer.Argument(help=f"A captioner, or a run, to use from now on; {NO_CHOICE} ends the choice.")
    ] = None,
) -> None:
    """Show the captioners and which one is used, or choose one for every command, the web page and Python.

    watchword captioner

    watchword captioner light
    """
    choose(name) if name else show()


def choose(name: str) -> None:
    from watchword.atomic_io import write_whole
    from watchword.captioning.bundle import find_bundle, shipped
    from watchword.preferences import VARIABLES, config_file, config_with, origin_of

    chosen, path = "", config_file()
    if name != NO_CHOICE:
        chosen = name if name in shipped() else str(find_bundle(name).folder.absolute())
    text = config_with("model", chosen)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WatchwordError(f"cannot write {path}: {error.strerror or error}") from error
    write_whole(path, text)
    print_message(f"{path}: {f'{chosen} is used from now on' if chosen else 'no choice is kept'}")
    if origin_of("model") == VARIABLES["model"]:
        print_message(f"warning: {VARIABLES['model']} is set and comes first")


def show() -> None:
    """A line for each captioner, and for the chosen run; a star marks the one that is used."""
    from watchword.captioning.bundle import DEFAULT, find_bundle, missing_weights, shipped
    from watchword.preferences import is_offline, origin_of, preference

    chosen = preference("model")
    names = list(dict.fromkeys([*shipped(), *([chosen] if chosen else [])]))
    missing = {name: missing_weights(find_bundle(name)) for name in names}
    comes = [] if is_offline() else [DEFAULT]  # it downloads what it needs
    used = chosen or next((name for name in names if name in comes or not missing[name]), "")
    why = f"chosen in {origin_of('model')}" if chosen else "the best one"
    width = max(map(len, names))
    for name in names:
        notes = [why] if name == used else []
        if missing[name]:
            weights = " ".join(missing[name])
            notes.append(f"downloads {weights} once" if name in comes else f"needs watchword weights get {weights}")
        about = find_bundle(name).recipe.about + (f" ({'; '.join(notes)})" if notes else "")
        typer.echo(f"{'*' if name == used else ' '} {name:{width}}  {about}")


def calibrate(
    captioner: Annotated[Path, typer.Argument(help="A run or a captioner's folder.")],
    captions: Annotated[Path | None, typer.Option(help="References; default: the run's own.")] = None,
    store: Annotated[Path | None, typer.Option(help="Feature store; default: the run's own.")] = None,
    split: Annotated[str, typer.Option(help="A split that it was not trained on.")] = "val",
) -> None:
    """Fit the confidence of a captioner.

    Confidence is the probability that a caption is as good as a person's.

    watchword calibrate runs/mine
    """
    from watchword.captioning.bundle import find_bundle
    from watchword.captioning.export import calibrate as fit_calibration
    from watchword.cli._progress import bar, console
    from watchword.data.benchmarks import captions_path, store_path

    bundle = find_bundle(captioner)
    with bar(transient=True) as progress:
        task = progress.add_task(f"captioning {split}", total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        data = bundle.recipe.data
        captions, store = captions or captions_path(data), store or store_path(data)
        found = fit_calibration(bundle, captions, store, split, report)
    found.calibration.save(bundle.folder)
    about = found.calibration.about
    console.print(
        f"{about['videos']} videos: its captions match or beat {about['mean_share']:.0%} of the references, the "
        f"more confident half {about['mean_share_of_the_surer_half']:.0%}; rank correlation "
        f"{about['rank_correlation']:.2f} (out of fold). Written into {bundle.folder}"
    )


def export(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN... FOLDER", help="A run, or several for an ensemble; the new folder.")
    ],
    beside: Annotated[
        list[str] | None, typer.Option(help="A shipped captioner as a further member; by name, not copied.")
    ] = None,
    max_time_steps: Annotated[
        int | None, typer.Option(min=1, help="Time steps to read, evenly chosen: fewer are faster.", show_default=False)
    ] = None,
    mbr_samples: Annotated[
        int | None, typer.Option(min=0, help="Samples of MBR decoding; by default the run's.", show_default=False)
    ] = None,
) -> None:
    """Export a run as a small bundle.

    Weights are in half precision, and nothing is kept that only training needs.

    watchword export runs/mine captioners/mine
    """
    from watchword.captioning.bundle import find_bundle
    from watchword.captioning.export import export as export_runs
    from watchword.cli._progress import console
    from watchword.errors import WatchwordError

    if len(runs) < 2:
        raise WatchwordError("name a run and a new folder: watchword export runs/mine captioners/mine")
    *given, target = runs
    exported = export_runs([find_bundle(run) for run in given], target, beside or (), max_time_steps, mbr_samples)
    size = sum(path.stat().st_size for path in exported.folder.iterdir())
    console.print(f"{target}: {size / 1e6:.1f} MB; try it: watchword describe clip.mp4 --model {target}")
