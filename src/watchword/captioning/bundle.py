"""A captioner on disk: a run of `watchword train`, or the smaller folder that is shipped or given away.

| file | content |
|---|---|
| `recipe.toml` | the recipe; `data.streams`, `data.max_time_steps`, `data.max_words` and `selection` are read |
| `model.safetensors` | weights, float16 will do; `model.2.safetensors`, ... are averaged with it as an ensemble |
| | (a tensor that is the same in `model.safetensors` is only there) |
| `ensemble.txt` | names of shipped captioners whose weights are averaged with these, one a line |
| `vocabulary.txt` | one word a line, and how much it tells |
| `streams.json` | stream -> the settings that made it, as in a store's `settings.json`; a run asks its store instead |
| `calibration.json` | how sure a sentence is; written by `watchword calibrate` |
| `card.md` | on what it was trained, what it scores, what it gets wrong |
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from watchword.config import Recipe, read_recipe
from watchword.data.benchmarks import store_path
from watchword.errors import WatchwordError, unknown
from watchword.features.store import Store, settings_key
from watchword.text.vocabulary import Vocabulary

SHIPPED = Path(__file__).parents[1] / "captioners"
BY_CHOICE = ("full", "light")  # the best first; `light` needs no weights but those that are installed with us
FOR_TRAINING = "light"         # to begin with on own films: the first of its models learns on
STREAMS_FILE = "streams.json"
ENSEMBLE_FILE = "ensemble.txt"


@dataclass(frozen=True)
class CaptionerFolder:
    """The files, unread until they are asked for."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @cached_property
    def recipe(self) -> Recipe:
        return read_recipe(self.folder / "recipe.toml")

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.load(self.folder / "vocabulary.txt")

    @property
    def weights(self) -> list[Path]:
        """Its own, the one that the recipe tells of first, then those of the captioners that speak along."""
        own = [self.folder / "model.safetensors", *sorted(self.folder.glob("model.*.safetensors"))]
        return [*own, *(path for name in self._others() for path in find_shipped(name).weights)]

    def _others(self) -> list[str]:
        try:
            return (self.folder / ENSEMBLE_FILE).read_text("utf-8").split()
        except FileNotFoundError:
            return []

    def settings(self) -> dict[str, dict[str, Any]]:
        """What made each stream that the captioner reads, by the stream's name in the recipe."""
        path = self.folder / STREAMS_FILE
        try:
            kept = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            kept = {}
        except ValueError as error:
            raise WatchwordError(f"{path} is damaged: {error}") from error
        return {stream: kept[stream] if stream in kept else self._seen(stream) for stream in self.recipe.data.streams}

    def _seen(self, stream: str) -> dict[str, Any]:
        """Of a run: what its store says, if that is still what the run was trained on."""
        try:
            seen = json.loads((self.folder / "data.json").read_text("utf-8"))["streams"][stream]
        except (OSError, ValueError, KeyError):
            seen = ""
        key = seen.rpartition("settings ")[2]
        try:
            store = Store(store_path(self.recipe.data))
            settings = store.settings(f"{stream.partition('@')[0]}@{key}")
        except WatchwordError as error:
            raise WatchwordError(
                f"{self.name} does not say how its stream {stream} is made, and its store does not either ({error}): "
                f"keep the store's settings.json, or put the settings into {self.folder / STREAMS_FILE}"
            ) from error
        if key and settings_key(settings) != key:
            raise WatchwordError(f"{store.folder} has changed since {self.name} was trained on its {stream}")
        return settings


def find_captioner(name: str | Path) -> CaptionerFolder:
    """A shipped captioner by its name, or a folder."""
    folder = Path(name)
    if (folder / "recipe.toml").is_file():
        return CaptionerFolder(folder)
    if folder.is_dir():
        raise WatchwordError(f"{folder} has no recipe.toml: is it a run of watchword train, or a captioner's folder?")
    return find_shipped(str(name))


def find_shipped(name: str) -> CaptionerFolder:
    folder = SHIPPED / name
    if folder.name == name and (folder / "recipe.toml").is_file():
        return CaptionerFolder(folder)
    raise unknown("captioner", name, shipped() or ["a run folder of watchword train"])


def shipped() -> list[str]:
    """The names of the captioners that came with the package, the best first."""
    found = [path.parent.name for path in sorted(SHIPPED.glob("*/recipe.toml"))]
    return [name for name in BY_CHOICE if name in found] + [name for name in found if name not in BY_CHOICE]
