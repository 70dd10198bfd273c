"""A run on disk: the layout of the folder that training fills and evaluation reads.

To caption videos with it, the same folder is a `captioning.bundle.CaptionerBundle`.

| file | content |
|---|---|
| `recipe.toml` | the recipe, resolved in full |
| `data.json` | checksums of the splits, settings of the streams, videos used, precision: the training data |
| `vocabulary.txt` | one word a line, and its information content |
| `model.safetensors` | the best weights so far, by the validation split |
| `last.safetensors` | everything that resuming needs, one file, replaced in one instant |
| `.lock` | locked by the process that trains |
| `log.jsonl`, `events.out.*`, `curves.png` | curves, as lines, for TensorBoard, and as a picture |
| `predictions-SPLIT.json`, `scores-SPLIT.json` | written by `watchword evaluate` |
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from watchword.atomic_io import write_whole
from watchword.config import Recipe, read_recipe, relative_to, write_toml
from watchword.documents import parse_json
from watchword.errors import WatchwordError
from watchword.models import Model
from watchword.models.checkpoint import load_model, read_tensors, save_model
from watchword.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Run:
    """The folder of one training."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def recipe(self) -> Recipe:
        return read_recipe(self.folder / "recipe.toml")

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.load(self.folder / "vocabulary.txt")

    @property
    def training_data(self) -> dict[str, Any]:
        """What the run was trained on: checksums of the splits, widths and settings of the streams."""
        data: Any = self._read_json("data.json")
        known = isinstance(data, dict) and all(isinstance(data.get(part), dict) for part in ("splits", "streams"))
        used = data.get("used", {}) if known else None
        if not isinstance(used, dict) or not all(isinstance(row, dict) for row in used.values()):
            raise WatchwordError(f"{self.folder / 'data.json'} is damaged: it does not say what the run was trained on")
        return data

    def was_trained_on(self, data: dict[str, Any], splits: Sequence[str]) -> bool:
        """Whether the run was trained on this data; of the videos used, these splits count."""
        kept = self.training_data
        same = all(kept.get(part) == data[part] for part in ("splits", "streams"))
        return same and all(data["used"][split] == kept.get("used", data["used"]).get(split) for split in splits)

    @property
    def trained_on(self) -> str:
        """A short checksum of the training videos and their captions."""
        return str(self.training_data.get("used", {}).get("train", {}).get("sha256", ""))

    def model(self) -> Model:
        """The best weights."""
        return load_model(self.folder / "model.safetensors", self.vocabulary)

    def unfinished(self) -> str:
        """How far a training has come that is not at its end; empty for one that is, or whose place is not known."""
        path = self.folder / "last.safetensors"
        if not path.exists():
            return ""
        with not_of_this_run(self), safe_open(path, framework="pt") as file:
            progress = parse_json(file.metadata()["progress"])
            phase, epoch, waited = (int(progress[name]) for name in ("phase", "epoch", "waited"))
            phases = self.recipe.phases
            last = max((number for number, one in enumerate(phases) if one.epochs), default=0)
            patience = phases[phase].patience if phase < len(phases) else None
            if phase > last or (
                phase == last and (epoch >= phases[phase].epochs or (patience is not None and waited >= patience))
            ):
                return ""
            where = f"phase {phase + 1} of {len(phases)}, " if len(phases) > 1 else ""
            return f"{where}epoch {epoch} of {phases[phase].epochs}"

    def scores(self, split: str) -> dict[str, Any]:
        found = self._read_json(f"scores-{split}.json")
        if not _holds_scores(found):
            raise WatchwordError(f"{self.folder}/scores-{split}.json holds no scores: run watchword evaluate again")
        return found

    def predictions(self, split: str) -> list[dict[str, Any]]:
        """What `watchword evaluate` wrote: rows of image_id, caption, score."""
        found: Any = self._read_json(f"predictions-{split}.json")
        if not isinstance(found, list) or not all(
            isinstance(row, dict) and {"image_id", "caption"} <= row.keys() for row in found
        ):
            raise WatchwordError(f"{self.folder}/predictions-{split}.json holds no captions: evaluate the run again")
        return found

    def check_new(self) -> None:
        """Refuses a folder with a run in it."""
        if (self.folder / "recipe.toml").exists():
            raise WatchwordError(
                f"{self.folder} holds a run already: go on with --resume {self.folder}, or name another --output"
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One training at a time in the folder. The system frees the lock when the process ends."""
        self._make_folder()
        lock = FileLock(self.folder / ".lock")
        try:
            lock.acquire(blocking=False)
        except Timeout as error:
            raise WatchwordError(
                f"another process is training in {self.folder}: wait for its end, or name another --output"
            ) from error
        except OSError as error:
            raise WatchwordError(f"cannot lock {self.folder}: {error.strerror or error}") from error
        try:
            yield
        finally:
            lock.release()

    def begin(self, recipe: Recipe, vocabulary: Vocabulary, data: dict[str, Any]) -> None:
        """Writes what is known before the first batch."""
        self._make_folder()
        write_whole(self.folder / "data.json", json.dumps(data, indent=2) + "\n")
        write_whole(self.folder / "vocabulary.txt", vocabulary.text)
        write_whole(self.folder / "recipe.toml", write_toml(relative_to(recipe, self.folder)))  # last: it is a run now

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WatchwordError(f"cannot make the run folder {self.folder}: {error.strerror}") from error

    def keep_best(self, model: Model, recipe: Recipe, vocabulary: Vocabulary) -> None:
        save_model(model, recipe.model, vocabulary, self.folder / "model.safetensors")

    def keep_last(self, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
        whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
        content = save(whole, {"progress": json.dumps(progress)})
        write_whole(self.folder / "last.safetensors", content)

    def last(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """What `keep_last` kept, if training had come that far."""
        path = self.folder / "last.safetensors"
        if not path.exists():
            return None
        tensors, metadata = read_tensors(path)
        with not_of_this_run(self):
            return tensors, parse_json(metadata["progress"])

    def _read_json(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        try:
            values: dict[str, Any] = parse_json(path.read_text("utf-8"))
        except FileNotFoundError as error:
            evaluated = name.startswith(("scores", "predictions"))
            hint = f"watchword evaluate {self.folder} makes it" if evaluated else "is it a run of watchword train?"
            raise WatchwordError(f"{self.folder} has no {name}: {hint}") from error
        except (OSError, ValueError) as error:
            raise WatchwordError(f"cannot read {path}: {error}") from error
        return values


def _holds_scores(found: Any) -> bool:
    """Whether a file of scores has numbers, and says of which data if it says anything."""
    scores, data = (found.get("scores"), found.get("data", {})) if isinstance(found, dict) else (None, None)
    if not isinstance(scores, dict) or not all(isinstance(value, int | float) for value in scores.values()):
        return False
    if not isinstance(data, dict) or (data and not {"videos", "of", "sha256", "trained_on"} <= data.keys()):
        return False
    return all(isinstance(data[key], int) for key in ("videos", "of") if key in data)


@contextmanager
def not_of_this_run(run: Run) -> Iterator[None]:
    """What goes wrong while a training is restored comes from a `last.safetensors` that another program wrote."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1].strip() if str(error).strip() else type(error).__name__
        raise WatchwordError(
            f"{run.folder / 'last.safetensors'} is not what this run kept ({reason}): put it back, or begin a new run"
        ) from error


def beginning_with(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, under the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def pack_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimiser as named tensors: no pickle."""
    return {
        f"optimizer.{row}.{name}": torch.as_tensor(value)
        for row, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }


def unpack_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in beginning_with("optimizer.", tensors).items():
        row, name = key.split(".", 1)
        state.setdefault(int(row), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
