"""Recipes: TOML and `key=value` words become frozen, validated settings."""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from math import exp
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from watchword.errors import WatchwordError, did_you_mean, unknown


class Settings(BaseModel):
    """Frozen, and no key that nobody reads."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> Self:
        """Validated settings; the first mistake becomes one line that names its key."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            if first["type"] == "extra_forbidden":
                known = cls._fields_at(first["loc"][:-1])
                message = f"unknown key {key!r}{did_you_mean(str(first['loc'][-1]), known)}"
            else:
                message = f"{key} = {first.get('input')!r}: {first['msg']}" if key else first["msg"]
            raise WatchwordError(f"{where}: {message}") from error

    @classmethod
    def _fields_at(cls, path: Sequence[int | str]) -> set[str]:
        """The keys that the settings at a path of nested settings and lists know."""
        owner: type[Settings] = cls
        for part in path:
            if isinstance(part, str) and part in owner.model_fields:
                owner = next(_settings_in(owner.model_fields[part].annotation), owner)
        return set(owner.model_fields)


def take_name(kind: str, settings: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The `name` of a table that says what is built, one that is known, and the other settings."""
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


class Data(Settings):
    """What is learned from."""

    benchmark: str | None = None                    # msvd or msrvtt: its captions and features; or name your own ...
    captions: Path | None = None                    # ... captions and ...
    store: Path | None = None                       # ... feature store
    streams: tuple[str, ...] = Field(("appearance",), min_length=1)
    optional_streams: tuple[str, ...] = ()          # of these streams, those that a video may lack
    min_count: int = Field(2, ge=1)
    max_words: int = Field(20, ge=1)                # longer sentences are cut, without an end
    moments: int | None = Field(None, ge=1)         # of a longer stream, this many evenly chosen
    glimpse: float = Field(1.0, gt=0, le=1)         # share of the moments that training sees, drawn each time
    blind: bool = False                             # words alone: no film is looked at, the store may lack them
    videos_per_batch: int = Field(32, ge=1)         # B
    captions_per_video: int = Field(4, ge=1)        # S

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
    """Scheduled sampling (Bengio et al. 2015): how often a word is the model's own instead of the caption's."""

    kind: Literal["constant", "inverse_sigmoid"] = "constant"
    rate: float = Field(0.25, ge=0, le=1)           # constant: the share of own words
    eta: float = Field(24.0, gt=0)                  # inverse sigmoid: true words eta / (eta + exp(epoch / eta))

    def share(self, epoch: int) -> float:
        """The share of own words in an epoch of the phase."""
        if self.kind == "constant":
            return self.rate
        return 1 - self.eta / (self.eta + exp(min(epoch / self.eta, 700)))


class Schedule(Settings):
    """The learning rate over a phase, in epochs (fractions count): warm-up, then steps, then a last stretch."""

    warmup_epochs: float = Field(0, ge=0)
    warmup_from: float = Field(0, ge=0)             # the rate at the very first step
    decay: float = Field(1.0, gt=0)                 # multiplied in ...
    decay_every: float = Field(1.0, gt=0)           # ... after each so many epochs
    last_epochs: float = Field(0, ge=0)             # at the end of the phase ...
    last_rate: float = Field(0, ge=0)               # ... this rate

    def rate(self, base: float, epoch: float, epochs: int) -> float:
        if epoch >= epochs - self.last_epochs:
            return self.last_rate
        if epoch < self.warmup_epochs:
            return self.warmup_from + (base - self.warmup_from) * epoch / self.warmup_epochs
        return base * self.decay ** int((epoch - self.warmup_epochs) / self.decay_every + 1e-9)


class Phase(Settings):
    """A stretch of training with one loss."""

    begin: Literal["last", "best"] = "last"         # from the weights as they are, or the best of the phases before
    forget_best: bool = False                       # what was best before this phase is no longer a candidate
    loss: dict[str, Any] = {"name": "cross_entropy"}  # read by the loss that it names
    epochs: int = Field(30, ge=1)
    optimizer: Literal["adam", "adamw", "rmsprop"] = "adam"
    learning_rate: float = Field(1e-4, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    clip: float = Field(5.0, gt=0)                  # norm of the whole gradient
    schedule: Schedule = Schedule()
    sampling: Sampling | None = None
    averaging: float = Field(0.0, ge=0, lt=1)       # decay of the weights' running mean, which is then what is kept
    patience: int | None = Field(None, ge=1)        # epochs without a better validation score


class Selection(Settings):
    """How the best weights are chosen."""

    split: str = "val"
    by: Literal["CIDEr", "ROUGE_L", "Bleu_4", "val_loss"] = "CIDEr"
    beam: int = Field(1, ge=1)
    length_power: float = Field(0.5, ge=0)          # of the beam
    votes: int = Field(0, ge=0)                     # so many sentences elect one of the beam; 0: its best
    every: int = Field(1, ge=1)                     # epochs

    @model_validator(mode="after")
    def never_on_test(self) -> Self:
        if self.split == "test":
            raise ValueError("selecting on the test split makes its score worthless; select on 'val'")
        if self.split == "train":
            raise ValueError("selecting on the train split rewards learning by heart; select on 'val'")
        return self


class Recipe(Settings):
    """One experiment, whole."""

    about: str = ""
    seed: int = 0
    data: Data
    model: dict[str, Any] = {"name": "soft_attention"}  # read by the model that it names
    start: Path | None = None                       # a run whose weights and words are begun with
    vocabulary: Path | None = None                  # another run's vocabulary.txt, to be one ensemble with it
    word_vectors: Path | None = None                # a GloVe or word2vec file that the embeddings begin with
    phases: tuple[Phase, ...] = Field((Phase(),), min_length=1)
    selection: Selection = Selection()
    save_minutes: float = Field(10.0, ge=0)         # everything that resuming needs is kept this often, and each epoch
    published: dict[str, float] = {}                # the paper's figures, beside ours in `watchword compare`


_PATHS = (("data", "captions"), ("data", "store"), ("", "start"), ("", "vocabulary"), ("", "word_vectors"))


def relative_to(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """The settings as they stand in a recipe file in this folder: paths lead from there."""
    values = recipe.model_dump()
    for table, key in _PATHS:
        place = values[table] if table else values
        if place[key] is not None:
            place[key] = os.path.relpath(place[key], folder)
    return values


def read_recipe(path: Path, words: Sequence[str] = ()) -> Recipe:
    """A recipe file with `key=value` words over it. Relative paths in the file are relative to the file."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        near = did_you_mean(path.name, [other.name for other in path.parent.glob("*.toml")] or ["no recipe there"])
        raise WatchwordError(f"no recipe {path}{near}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise WatchwordError(f"cannot read recipe {path}: {error}") from error
    for table, key in _PATHS:
        place = values.get(table) if table else values
        if isinstance(place, dict) and isinstance(place.get(key), str):
            place[key] = os.path.normpath(path.parent / place[key])
    for word in words:
        _override(values, word)
    return Recipe.read(values, str(path))


def _override(values: dict[str, Any], word: str) -> None:
    """`phases.0.learning_rate=1e-4`: the value is TOML where it parses as TOML, plain text otherwise."""
    key, equals, text = word.partition("=")
    if not equals:
        raise WatchwordError(f"{word!r} is not key=value, for example model.hidden_size=256")
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *parents, last = key.split(".")
    place: Any = values
    for part in parents:
        place = _enter(place, part, key)
    if isinstance(place, list):
        place[_position(place, last, key)] = value
    else:
        place[last] = value


def _enter(place: Any, part: str, key: str) -> Any:
    if isinstance(place, list):
        return place[_position(place, part, key)]
    if not isinstance(place.setdefault(part, {}), dict | list):
        raise WatchwordError(f"{key}: {part} is a value, it has no keys of its own")
    return place[part]


def _position(items: list[Any], part: str, key: str) -> int:
    if not part.isdecimal() or int(part) >= len(items):
        raise WatchwordError(f"{key}: expected a number below {len(items)} where {part!r} stands")
    return int(part)


def write_toml(values: Mapping[str, Any]) -> str:
    """Settings as TOML: tables, lists of tables, plain values. None is left out: it is the default."""
    lines: list[str] = []
    _write_table(lines, "", values)
    return "\n".join(lines).strip() + "\n"


def _write_table(lines: list[str], name: str, values: Mapping[str, Any]) -> None:
    nested = {key: value for key, value in values.items() if _is_table(value)}
    for key, value in values.items():
        if value is not None and key not in nested:
            lines.append(f"{_key(key)} = {_value(value)}")
    for key, value in nested.items():
        whole = f"{name}.{_key(key)}" if name else _key(key)
        for table in value if isinstance(value, list | tuple) else (value,):
            lines += ["", f"[[{whole}]]" if isinstance(value, list | tuple) else f"[{whole}]"]
            _write_table(lines, whole, table)


def _is_table(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(item, Mapping) for item in value)
    return isinstance(value, Mapping)


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, bool | int | float):
        return json.dumps(value).replace("Infinity", "inf").replace("NaN", "nan")
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
