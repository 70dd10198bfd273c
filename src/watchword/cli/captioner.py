"""`watchword captioner`: which captioner is used where none is named, and the user's choice."""

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
