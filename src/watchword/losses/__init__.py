"""The table of losses, and how one is built from a recipe."""

from collections.abc import Mapping
from typing import Any

from watchword.config import take_name
from watchword.losses.information import Information
from watchword.losses.multi_sample import MultiSample
from watchword.losses.objective import CrossEntropy, LogitModel, Loss, Material, Objective
from watchword.losses.ranked import Ranked
from watchword.losses.refocus import FirstPass, FixedFocus, Refocusing
from watchword.losses.reinforcement import Reinforce, SelfCritical

LOSSES: dict[str, type[Objective]] = {
    "cross_entropy": CrossEntropy,
    "information": Information,
    "self_critical": SelfCritical,
    "reinforce": Reinforce,
    "first_pass": FirstPass,
    "refocusing": Refocusing,
    "fixed_focus": FixedFocus,
    "ranked": Ranked,
    "multi_sample": MultiSample,
}

__all__ = ["LOSSES", "LogitModel", "Loss", "Material", "Objective", "build_loss"]


def build_loss(settings: Mapping[str, Any], material: Material) -> Objective:
    """The `loss` table of a phase: its name, and the settings of this loss."""
    name, values = take_name("loss", settings, LOSSES)
    return LOSSES[name](LOSSES[name].Settings.read(values, f"loss {name}"), material)
