"""Figures, of matplotlib and of pictures; written whole or not at all."""

from pathlib import Path
from typing import TYPE_CHECKING

from watchword.atomic_io import whole_file
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure; sizes in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise WatchwordError("figures need matplotlib: pip install 'watchword[figures]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", path: Path) -> None:
    """As .png, .pdf or whatever matplotlib can write; without a suffix as .png."""
    form = path.suffix.lower().removeprefix(".") or "png"
    known = figure.canvas.get_supported_filetypes()
    if form not in known:
        raise WatchwordError(f"cannot write {path}: unknown suffix (there is: {', '.join(sorted(known))})")
    with whole_file(path) as file:
        figure.savefig(file, dpi=150, format=form)


def save_picture(picture: "Image", path: Path) -> None:
    """As .png, .jpg or whatever Pillow can write."""
    from PIL import Image

    form = Image.registered_extensions().get(path.suffix.lower())
    if form not in Image.SAVE:
        raise WatchwordError(f"cannot write {path}: unknown suffix; name a .png or .jpg")
    with whole_file(path) as file:
        picture.save(file, form)
