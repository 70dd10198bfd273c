"""Weights on disk. A file knows how to build its model and which words it was trained with; it can run no code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from watchword.errors import WatchwordError
from watchword.files import write_whole
from watchword.models import build_model, read_model_config
from watchword.models.captioner import Captioner
from watchword.text.vocabulary import Vocabulary


def save_model(model: Captioner, settings: Mapping[str, Any], vocabulary: Vocabulary, path: Path) -> None:
    """All settings are kept, those that nobody named too: what the file builds does not change with a default."""
    name, config = read_model_config(settings)
    whole = {"name": name, **config.model_dump(mode="json")}
    described = {"settings": whole, "widths": model.widths, "vocabulary": vocabulary.checksum}
    metadata = {"watchword": json.dumps(described)}
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    write_whole(path, save(tensors, metadata))


def load_model(path: Path, vocabulary: Vocabulary) -> Captioner:
    """The model that was saved, in evaluation mode, on the CPU."""
    tensors, metadata = read_tensors(path)
    try:
        described = json.loads(metadata["watchword"])
        settings, widths, checksum = described["settings"], described["widths"], described["vocabulary"]
    except (KeyError, ValueError) as error:
        raise WatchwordError(f"{path} holds weights, but nothing says of which model: is it a run's?") from error
    if checksum != vocabulary.checksum:
        raise WatchwordError(
            f"the vocabulary ({len(vocabulary):,} words, {vocabulary.checksum}) is not the one that {path} was trained "
            f"with ({checksum}): put the run's own vocabulary.txt back beside its weights"
        )
    model = build_model(settings, widths, len(vocabulary))
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        problem = str(error).splitlines()[-1].strip()
        raise WatchwordError(f"{path} does not fit its own settings {settings}: {problem}") from error
    return model.eval()


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except FileNotFoundError as error:
        raise WatchwordError(f"{path} is missing: is {path.parent} a run folder of watchword train?") from error
    except (SafetensorError, OSError) as error:
        raise WatchwordError(f"{path} is damaged ({error}): train again, or copy it again") from error
