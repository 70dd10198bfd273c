"""Figures of matplotlib."""

from pathlib import Path
from typing import TYPE_CHECKING

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure; sizes in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise WatchwordError("figures need matplotlib: pip install 'watchword[figures]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", path: Path) -> None:
    """As .png, .pdf or whatever matplotlib can write."""
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise WatchwordError(f"cannot write {path}: {error}") from error
