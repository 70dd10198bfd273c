"""From a recipe to a run."""

from watchword.training.loop import TrainingProgress, resume, train
from watchword.training.run import Run

__all__ = ["Run", "TrainingProgress", "resume", "train"]
