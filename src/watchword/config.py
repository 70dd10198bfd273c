"""Recipes: TOML files with `key=value` overrides become frozen, validated settings."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import exp
from pathlib import Path
from typing import Any, Literal, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from watchword.documents import parse_toml
from watchword.errors import WatchwordError, did_you_mean, unknown


class Settings(BaseModel):
    """Frozen; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> Self:
        """Validated settings. The first mistake is raised as one line that names its key."""
        try:
            check_integers(values)
            return cls.model_validate(values)
        except ValueError as error:
            if not isinstance(error, ValidationError):
                raise WatchwordError(f"{where}: {error}") from error
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            if first["type"] == "extra_forbidden":
                known = cls._fields_at(first["loc"][:-1])
                message = f"unknown key {key!r}{did_you_mean(str(first['loc'][-1]), known)}"
            else:
                message = f"{key} = {first.get('input')!r:.200}: {first['msg']}" if key else first["msg"]
            raise WatchwordError(f"{where}: {message}") from error

    @classmethod
    def _fields_at(cls, path: Sequence[int | str]) -> set[str]:
        """The known keys at a path of nested settings and lists."""
        owner: type[Settings] = cls
        for part in path:
            if isinstance(part, str) and part in owner.model_fields:
                owner = next(_settings_in(owner.model_fields[part].annotation), owner)
        return set(owner.model_fields)


def check_integers(values: Any) -> None:
    """Refuses integers of more than 64 bits: no setting means them, and numpy and torch cannot hold them."""
    if isinstance(values, int) and not -(2**63) <= values < 2**63:
        raise ValueError(f"an integer of {values.bit_length()} bits; at most 64 are read")
    for value in values.values() if isinstance(values, Mapping) else values if isinstance(values, list | tuple) else ():
        check_integers(value)


def take_name(kind: str, settings: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The `name` of a table, which must be known, and its other settings."""
    values = dict(settings)
    name = values.pop("name", None)
    if not isinstance(name, str):
        raise WatchwordError(f"a {kind} needs a name, one of {', '.join(known)}")
    if name not in known:
        raise unknown(kind, name, known)
    return name, values


def _settings_in(annotation: Any) -> Any:
    """Every Settings class named in a type such as `tuple[Phase, ...]` or `Sampling | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _settings_in(argument)


# Keys and names of recipes before 0.2: they are still read, with a warning. `*` stands for each item of a list.
RENAMED_KEYS = {
    "data.moments": "max_time_steps",
    "data.glimpse": "frame_keep_rate",
    "data.blind": "text_only",
    "start": "init_from",
    "phases.*.averaging": "ema_decay",
    "selection.votes": "mbr_samples",
    "model.meaning_size": "sentence_embedding_size",
    "model.sharpness": "gamma",
    "model.looks": "attended_streams",
}
RENAMED_VALUES = {
    ("model.name", "gist"): "embedding_conditioned",
    ("model.hard", "places"): "locations",
    ("phases.*.loss.name", "first_look"): "first_pass",
}


def rename_keys(values: dict[str, Any], *, warn: bool = True) -> None:
    """Replaces the old keys and values of a recipe's tables in place."""
    for path, new in RENAMED_KEYS.items():
        *parents, old = path.split(".")
        for section in _sections(values, parents):
            if old in section:
                section[new] = section.pop(old)
                _warn_renamed(path, ".".join([*parents, new]), warn)
    for (path, old), new in RENAMED_VALUES.items():
        *parents, key = path.split(".")
        for section in _sections(values, parents):
            if section.get(key) == old:
                section[key] = new
                _warn_renamed(f"{path} = {old!r}", f"{new!r}", warn)


def _sections(values: Any, path: Sequence[str]) -> Iterator[dict[str, Any]]:
    if not path:
        yield from [values] if isinstance(values, dict) else []
    elif path[0] == "*":
        for item in values if isinstance(values, list) else []:
            yield from _sections(item, path[1:])
    elif isinstance(values, dict) and path[0] in values:
        yield from _sections(values[path[0]], path[1:])


def _warn_renamed(old: str, new: str, warn: bool) -> None:
    if warn:
        warnings.warn(f"{old} of recipes is now called {new}; the old name goes in a later release", FutureWarning, 4)


class Data(Settings):
    """The training data, its features and its batches."""

    benchmark: str | None = None  # msvd or msrvtt: its captions and features; or name your own ...
    captions: Path | None = None  # ... captions and ...
    store: Path | None = None  # ... feature store
    made_by: str = ""  # the command that makes them, where there is one
    streams: tuple[str, ...] = Field(("appearance",), min_length=1)
    optional_streams: tuple[str, ...] = ()  # of these streams, those that a video may lack
    min_count: int = Field(2, ge=1)
    max_words: int = Field(20, ge=1, le=10_000)  # longer captions are cut and have no EOS
    max_time_steps: int | None = Field(None, ge=1)  # of a longer stream, this many evenly spaced time steps
    frame_keep_rate: float = Field(1.0, gt=0, le=1)  # share of the time steps kept in training, drawn for each batch
    text_only: bool = False  # a language model: no features are read
    videos_per_batch: int = Field(32, ge=1)  # B
    captions_per_video: int = Field(4, ge=1)  # S

    @model_validator(mode="after")
    def some_data(self) -> Self:
        if self.benchmark is None and (self.captions is None or self.store is None):
            raise ValueError("name a benchmark, or captions and store of your own")
        return self

    @model_validator(mode="after")
    def some_required_stream(self) -> Self:
        strange = [stream for stream in self.optional_streams if stream not in self.streams]
        if strange:
            raise ValueError(f"optional_streams: {strange[0]!r} is none of the streams {', '.join(self.streams)}")
        if not self.required_streams:
            raise ValueError("optional_streams: at least one of the streams must be required")
        return self

    @property
    def required_streams(self) -> tuple[str, ...]:
        return tuple(stream for stream in self.streams if stream not in self.optional_streams)


class Sampling(Settings):
    """Scheduled sampling (Bengio et al. 2015): how often the model reads its own word instead of the caption's."""

    kind: Literal["constant", "inverse_sigmoid"] = "constant"
    rate: float = Field(0.25, ge=0, le=1)  # constant: the share of sampled words
    eta: float = Field(24.0, gt=0)  # inverse sigmoid: caption's words eta / (eta + exp(epoch / eta))

    def at(self, epoch: int) -> float:
        """The share of sampled words in an epoch of the phase."""
        if self.kind == "constant":
            return self.rate
        return 1 - self.eta / (self.eta + exp(min(epoch / self.eta, 700)))


class Schedule(Settings):
    """The learning rate over a phase, in epochs (fractions count): warm-up, then step decay, then a last rate."""

    warmup_epochs: float = Field(0, ge=0)
    warmup_from: float = Field(0, ge=0)  # the rate at the very first step
    decay: float = Field(1.0, gt=0)  # multiplied in ...
    decay_every: float = Field(1.0, gt=0)  # ... after each so many epochs
    last_epochs: float = Field(0, ge=0)  # at the end of the phase ...
    last_rate: float = Field(0, ge=0)  # ... this rate

    def rate(self, base: float, epoch: float, epochs: int) -> float:
        if epoch >= epochs - self.last_epochs:
            return self.last_rate
        if epoch < self.warmup_epochs:
            return self.warmup_from + (base - self.warmup_from) * epoch / self.warmup_epochs
        return base * self.decay ** int((epoch - self.warmup_epochs) / self.decay_every + 1e-9)


class Phase(Settings):
    """A part of training with one loss."""

    begin: Literal["last", "best"] = "last"  # with the current weights, or the best so far
    forget_best: bool = False  # the best weights of earlier phases no longer count
    loss: dict[str, Any] = {"name": "cross_entropy"}  # read by the loss that it names
    epochs: int = Field(30, ge=0)  # 0: the phase is skipped
    optimizer: Literal["adam", "adamw", "rmsprop"] = "adam"
    learning_rate: float = Field(1e-4, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    clip: float = Field(5.0, gt=0)  # norm of the whole gradient
    schedule: Schedule = Schedule()
    sampling: Sampling | None = None
    ema_decay: float = Field(0.0, ge=0, lt=1)  # of the exponential moving average of the weights; 0: none
    patience: int | None = Field(None, ge=1)  # epochs without a better validation score


class Selection(Settings):
    """How the best weights are selected."""

    split: str = "val"
    by: Literal["CIDEr", "ROUGE_L", "Bleu_4", "val_loss"] = "CIDEr"
    beam: int = Field(1, ge=1, le=1000)
    length_power: float = Field(0.5, ge=0)  # of the beam
    mbr_samples: int = Field(0, ge=0, le=10_000)  # samples of MBR decoding; 0: the best of the beam
    every: int = Field(1, ge=1)  # epochs

    @model_validator(mode="after")
    def never_on_test(self) -> Self:
        if self.split == "test":
            raise ValueError("selecting on the test split makes its score worthless; select on 'val'")
        if self.split == "train":
            raise ValueError("selecting on the train split rewards memorisation; select on 'val'")
        return self


class Recipe(Settings):
    """One experiment."""

    about: str = ""
    seed: int = Field(0, ge=0, lt=2**62)
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # of training; auto: bfloat16 where it is faster
    data: Data
    model: dict[str, Any] = {"name": "soft_attention"}  # read by the model that it names
    init_from: Path | None = None  # a run whose weights and vocabulary training starts with
    vocabulary: Path | None = None  # vocabulary.txt of another run, to ensemble with it
    word_vectors: Path | None = None  # a GloVe or word2vec file that initialises the embeddings
    phases: tuple[Phase, ...] = Field((Phase(),), min_length=1)
    selection: Selection = Selection()
    save_minutes: float = Field(10.0, ge=0)  # between checkpoints; one follows each epoch too
    published: dict[str, float] = {}  # the paper's figures, beside ours in `watchword compare`


_PATHS = (("data", "captions"), ("data", "store"), ("", "init_from"), ("", "vocabulary"), ("", "word_vectors"))


def relative_to(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """The settings as a recipe file in this folder has them: paths are relative to it."""
    values = recipe.model_dump()
    for table, key in _PATHS:
        section = values[table] if table else values
        if section[key] is not None:
            section[key] = os.path.relpath(section[key], folder)
    return values


# --- recipe files ----------------------------------------------------------------------------------------------------


RECIPES = Path(__file__).parent / "recipes"


def shipped_recipes() -> dict[str, Path]:
    """The recipes that are installed with the package, by name: `shapes`, `msvd/soft_attention`."""
    files = sorted(RECIPES.rglob("*.toml"))
    return {path.relative_to(RECIPES).with_suffix("").as_posix(): path for path in files}


def find_recipe(name: str | Path) -> Path:
    """A shipped recipe by its name, or a file. `recipes/msvd_stats.toml`, as before 0.2, is `msvd/stats`."""
    known, path = shipped_recipes(), Path(name)
    if str(name) in known:
        return known[str(name)]
    former = {name.replace("/", "_"): name for name in known}
    if path.parent.name == "recipes" and path.stem in former and not path.exists():
        new = former[path.stem]
        warnings.warn(f"the recipe {path} is now called {new}; the old name goes in a later release", FutureWarning, 3)
        return known[new]
    return path


def recipe_name(path: Path) -> str:
    """The name of its run folder: `msvd_stats` for the shipped recipe `msvd/stats`, else the stem of the file."""
    return "_".join(path.relative_to(RECIPES).with_suffix("").parts) if _is_shipped(path) else path.stem


def _is_shipped(path: Path) -> bool:
    return path.is_relative_to(RECIPES)


def read_recipe(path: Path, words: Sequence[str] = ()) -> Recipe:
    """A recipe file with `key=value` overrides.

    Relative paths in a file are relative to the file; in a shipped recipe and in overrides to the working folder.
    """
    try:
        values = parse_toml(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise WatchwordError(f"no recipe {path}{_nearest(path)}") from error
    except (ValueError, OSError) as error:
        raise WatchwordError(f"cannot read recipe {path}: {error}") from error
    rename_keys(values)
    folder = Path() if _is_shipped(path) else path.parent
    for table, key in _PATHS:
        section = values.get(table) if table else values
        if isinstance(section, dict) and isinstance(section.get(key), str):
            section[key] = os.path.normpath(folder / section[key])
    for word in words:
        _override(values, word)
    rename_keys(values)  # of the overrides
    return Recipe.read(values, str(path))


def _nearest(path: Path) -> str:
    files = [other.name for other in path.parent.glob("*.toml")]
    close = get_close_matches(path.name, files, n=1) or get_close_matches(str(path), shipped_recipes(), n=1)
    return f"; did you mean {close[0]!r}?" if close else ": watchword train --list shows those that come with Watchword"


def check_paths(recipe: Recipe) -> None:
    """Every file and folder that a recipe names is there; the error names the setting to change."""
    for table, key in _PATHS:
        path: Path | None = getattr(recipe.data if table else recipe, key)
        if path is not None and not path.exists():
            name = f"{table}.{key}" if table else key
            command = f"make it with {recipe.data.made_by}, or " if table and recipe.data.made_by else ""
            raise WatchwordError(f"{name}: there is no {path}; {command}set {name}=PATH")


def _override(values: dict[str, Any], word: str) -> None:
    """`phases.0.learning_rate=1e-4`: the value is TOML where it parses as TOML, plain text otherwise."""
    key, equals, text = word.partition("=")
    if not equals:
        raise WatchwordError(f"{word!r} is not key=value, for example model.hidden_size=256")
    try:
        value: Any = parse_toml(f"value = {text}")["value"]
    except ValueError:
        value = text
    *parents, last = key.split(".")
    section: Any = values
    for part in parents:
        section = _enter(section, part, key)
    if isinstance(section, list):
        section[_position(section, last, key)] = value
    else:
        section[last] = value


def _enter(section: Any, part: str, key: str) -> Any:
    if isinstance(section, list):
        return section[_position(section, part, key)]
    if not isinstance(section.setdefault(part, {}), dict | list):
        raise WatchwordError(f"{key}: {part} is a value, it has no keys of its own")
    return section[part]


def _position(items: list[Any], part: str, key: str) -> int:
    if not part.isdecimal() or int(part) >= len(items):
        raise WatchwordError(f"{key}: expected a number below {len(items)} where {part!r} stands")
    return int(part)


def write_toml(values: Mapping[str, Any]) -> str:
    """Settings as TOML. None is left out: it is the default."""
    return tomli_w.dumps(_plain(values))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
