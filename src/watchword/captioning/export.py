"""Bundles made of bundles: exported to be shared, or extended by new words to be fine-tuned."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from watchword.atomic_io import write_whole
from watchword.captioning.bundle import ENSEMBLE_FILE, STREAMS_FILE, CaptionerBundle, find_shipped
from watchword.captioning.confidence import Calibration
from watchword.config import write_toml
from watchword.data.dataset import build_vocabulary
from watchword.errors import WatchwordError
from watchword.models import build_model
from watchword.models.checkpoint import FIRST, load_model, read_tensors, save_model, save_shared
from watchword.text.vocabulary import SPECIALS, Vocabulary
from watchword.types import Clip


def export(
    runs: Sequence[CaptionerBundle],
    folder: Path,
    beside: Sequence[str] = (),
    max_time_steps: int | None = None,
    mbr_samples: int | None = None,
) -> CaptionerBundle:
    """A run without what only training needs, weights in half precision; several runs become an ensemble.

    Each member reads its own streams. Tensors that equal those of the first member are stored once. Vocabulary and
    search are the first one's. Shipped captioners named in `beside` are members too, by reference: they are not copied.
    `max_time_steps` is the number of time steps to read, evenly chosen; `mbr_samples` that of MBR decoding.
    """
    first, members = runs[0], [*runs, *map(find_shipped, beside)]
    for run in members[1:]:
        if run.vocabulary.checksum != first.vocabulary.checksum:
            raise WatchwordError(f"{run.name} and {first.name} do not share a vocabulary: they cannot be one captioner")
        if max_time_steps is None and run.recipe.data.max_time_steps != first.recipe.data.max_time_steps:
            names = f"{run.name} and {first.name}"
            raise WatchwordError(f"{names} differ in data.max_time_steps: choose with --max-time-steps")
    if (folder / "recipe.toml").exists():
        raise WatchwordError(f"{folder} holds a captioner already: name another folder, or delete it")
    settings = _all_settings(members)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WatchwordError(f"cannot write into {folder}: {error.strerror}") from error
    shared: dict[str, Tensor] = {}
    for number, path in enumerate((path for run in runs for path in run.weights), 1):
        tensors, metadata = read_tensors(path)
        small = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
        save_shared(small, metadata, shared, folder / (FIRST if number == 1 else f"model.{number}.safetensors"))
        shared = shared or small
    write_whole(folder / "vocabulary.txt", first.vocabulary.text)
    write_whole(folder / STREAMS_FILE, json.dumps(settings, indent=2) + "\n")
    if beside:
        write_whole(folder / ENSEMBLE_FILE, "\n".join(beside) + "\n")
    calibration = Calibration.load(first.folder) if len(members) == 1 else None
    if calibration:
        calibration.save(folder)
    values = first.recipe.model_dump()  # without the folders of the machine that trained it
    paths = {key: values["data"][key] for key in ("captions", "store")}
    values["data"] |= {key: path and path.name for key, path in paths.items()} | {"streams": tuple(settings)}
    values["data"] |= {"max_time_steps": max_time_steps} if max_time_steps else {}
    values["selection"] |= {"mbr_samples": mbr_samples} if mbr_samples is not None else {}
    text = write_toml(values | {"init_from": None, "vocabulary": None})
    write_whole(folder / "recipe.toml", text)  # last: the folder is complete now
    return CaptionerBundle(folder)


def _all_settings(bundles: Sequence[CaptionerBundle]) -> dict[str, dict[str, Any]]:
    """The settings of each stream that any of the members reads."""
    settings: dict[str, dict[str, Any]] = {}
    for bundle in bundles:
        for stream, made in bundle.settings().items():
            if settings.setdefault(stream, made) != made:
                raise WatchwordError(f"{bundle.name} and {bundles[0].name} read {stream} with different settings")
    return settings


def extend_vocabulary(bundle: CaptionerBundle, clips: Sequence[Clip], min_count: int, folder: Path) -> Path:
    """A folder to start a training from: the captioner, with rows for the new words of these captions."""
    known = bundle.vocabulary
    counted = build_vocabulary(clips, min_count)
    new = [number for number, word in enumerate(counted.words) if word not in known]
    words, content = [*known.words, *(counted.words[number] for number in new)], None
    if known.content and counted.content:
        content = [*known.content, *(counted.content[number] for number in new)][len(SPECIALS) :]
    vocabulary = Vocabulary(words[len(SPECIALS) :], content)
    trained = load_model(bundle.weights[0], known)  # of an ensemble, the first member
    settings = bundle.recipe.model
    torch.manual_seed(0)
    model = build_model(settings, trained.widths, len(vocabulary))
    extended = model.state_dict()
    for name, tensor in trained.state_dict().items():
        extended[name][tuple(slice(size) for size in tensor.shape)] = tensor  # what is as long as the vocabulary grew
    folder.mkdir(parents=True, exist_ok=True)
    save_model(model, settings, vocabulary, folder / "model.safetensors")
    (folder / "vocabulary.txt").write_text(vocabulary.text, "utf-8")
    return folder
