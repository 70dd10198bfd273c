"""Weights on disk. A file knows how to build its model and which words it was trained with; it can run no code."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.overrides import TorchFunctionMode

from watchword.atomic_io import write_whole
from watchword.config import Settings, rename_keys
from watchword.documents import parse_json
from watchword.errors import WatchwordError
from watchword.models import build_model, read_model_config
from watchword.models.model import Model
from watchword.text.vocabulary import Vocabulary

FIRST = "model.safetensors"
LARGEST_WIDTH = 1_000_000  # of a stream
SHARED = "shared"  # in a file's metadata: names of tensors that are the first file's


class About(Settings):
    """What a file says of its model."""

    settings: dict[str, Any]
    widths: dict[str, Annotated[int, Field(ge=1, le=LARGEST_WIDTH)]]
    vocabulary: str  # checksum


def _about(path: Path, metadata: Mapping[str, str]) -> About:
    try:
        return About.read(parse_json(metadata["watchword"]), str(path))
    except (KeyError, ValueError, WatchwordError) as error:
        raise WatchwordError(
            f"{path} holds weights, but nothing says of which model ({error}): is it a run's?"
        ) from error


def save_model(model: Model, settings: Mapping[str, Any], vocabulary: Vocabulary, path: Path) -> None:
    """All settings are kept, those with default values too: what the file builds does not change with a default."""
    name, config = read_model_config(settings)
    whole = {"name": name, **config.model_dump(mode="json")}
    described = {"settings": whole, "widths": model.widths, "vocabulary": vocabulary.checksum}
    metadata = {"watchword": json.dumps(described)}
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    write_whole(path, save(tensors, metadata))


def load_model(path: Path, vocabulary: Vocabulary) -> Model:
    """The model that was saved, in evaluation mode, on the CPU."""
    tensors, metadata = read_tensors(path)
    about = _about(path, metadata)
    if about.vocabulary != vocabulary.checksum:
        raise WatchwordError(
            f"the vocabulary ({len(vocabulary):,} words, {vocabulary.checksum}) is not the one that {path} was trained "
            f"with ({about.vocabulary}): put the run's own vocabulary.txt back beside its weights"
        )
    broken = [name for name, tensor in tensors.items() if not _is_finite(tensor)]
    if broken:
        raise WatchwordError(
            f"{path} holds weights that are not numbers ({broken[0]}): train again, or take an earlier copy"
        )
    settings = about.settings
    rename_keys({"model": settings}, warn=False)
    with _WithoutDraws():  # every weight is replaced
        model = build_model(settings, about.widths, len(vocabulary))
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        problem = str(error).splitlines()[-1].strip()
        raise WatchwordError(f"{path} does not fit its own settings {settings}: {problem}") from error
    return model.eval()


def _is_finite(tensor: Tensor) -> bool:
    """By both extremes, one of which NaN would be: a tenth of the time of testing every number."""
    return tensor.numel() == 0 or all(bool(torch.isfinite(extreme)) for extreme in tensor.aminmax())


class _WithoutDraws(TorchFunctionMode):
    """Within it new weights are zeros. Drawing them takes as long as reading all of them from the file."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.uniform_, Tensor.normal_):
            return args[0].zero_()
        return func(*args, **(kwargs or {}))


def save_shared(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str], first: Mapping[str, Tensor], path: Path
) -> None:
    """Weights beside `model.safetensors`, which has the tensors `first`: what both have is not written again."""
    shared = [name for name, tensor in tensors.items() if name in first and torch.equal(tensor, first[name])]
    own = {name: tensor for name, tensor in tensors.items() if name not in shared}
    write_whole(path, save(own, {**metadata, **({SHARED: " ".join(shared)} if shared else {})}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All of them, also those that it shares with the `model.safetensors` beside it."""
    tensors, metadata = _read(path)
    shared = metadata.pop(SHARED, "").split()
    if shared:
        first, _ = _read(path.with_name(FIRST), shared)
        tensors |= first
    return tensors, metadata


def _read(path: Path, wanted: Sequence[str] | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys() if wanted is None else wanted
            return {name: file.get_tensor(name) for name in names}, dict(file.metadata() or {})
    except FileNotFoundError as error:
        raise WatchwordError(f"{path} is missing: is {path.parent} a run folder of watchword train?") from error
    except (SafetensorError, OSError) as error:
        raise WatchwordError(f"{path} is damaged ({error}): train again, or copy it again") from error
