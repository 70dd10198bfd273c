"""The table of models, and how one is built from a recipe."""

from collections.abc import Mapping
from typing import Any

from watchword.config import take_name
from watchword.errors import WatchwordError
from watchword.models.dual_afr import DualAFR
from watchword.models.embedding_conditioned import EmbeddingConditioned
from watchword.models.global2local import Global2Local
from watchword.models.hierarchical import Hierarchical
from watchword.models.mean_pool import MeanPool
from watchword.models.model import Model, ModelConfig
from watchword.models.refocus import Refocus
from watchword.models.s2vt import S2VT
from watchword.models.soft_attention import SoftAttention
from watchword.models.stats import Stats

MODELS: dict[str, type[Model]] = {
    "mean_pool": MeanPool,
    "soft_attention": SoftAttention,
    "s2vt": S2VT,
    "hierarchical": Hierarchical,
    "refocus": Refocus,
    "stats": Stats,
    "global2local": Global2Local,
    "dual_afr": DualAFR,
    "embedding_conditioned": EmbeddingConditioned,
}

__all__ = ["MODELS", "Model", "ModelConfig", "build_model", "read_model_config"]


def read_model_config(settings: Mapping[str, Any]) -> tuple[str, ModelConfig]:
    """The `[model]` table of a recipe: its name, and the settings that this model knows."""
    name, values = take_name("model", settings, MODELS)
    return name, MODELS[name].Config.read(values, f"model {name}")


def build_model(settings: Mapping[str, Any], widths: Mapping[str, int], num_words: int) -> Model:
    """A fresh model; `widths` names the streams it reads and their feature sizes."""
    name, config = read_model_config(settings)
    try:
        return MODELS[name](config, widths, num_words)  # type: ignore[call-arg]
    except (MemoryError, RuntimeError) as error:  # torch raises a RuntimeError where memory is missing
        raise WatchwordError(f"cannot build model {name} of this size: {str(error).partition(chr(10))[0]}") from error
