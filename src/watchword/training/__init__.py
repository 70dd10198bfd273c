"""From a recipe to a run."""

from watchword.training.loop import Moment, resume, train
from watchword.training.run import Run

__all__ = ["Moment", "Run", "resume", "train"]
