"""A captioner on disk: a run of `watchword train`, or the smaller folder that is shipped or exported.

| file | content |
|---|---|
| `recipe.toml` | the recipe; `data.streams`, `data.max_time_steps`, `data.max_words` and `selection` are read |
| `model.safetensors` | weights, float16 or float32; `model.2.safetensors`, ... are the other members of an ensemble |
| | (a tensor that equals that of `model.safetensors` is stored only there) |
| `ensemble.txt` | names of shipped captioners that are members of the ensemble too, one a line |
| `vocabulary.txt` | one token a line, and its information content |
| `streams.json` | stream -> its settings, as in a store's `settings.json`; a run reads its store instead |
| `calibration.json` | maps features of a caption to its confidence; `watchword calibrate` writes it |
| `card.md` | the model card: data, scores, limits |
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from watchword.config import Recipe, Settings, read_recipe
from watchword.data.benchmarks import store_path
from watchword.documents import parse_json
from watchword.downloads import Report, fetch, no_report
from watchword.errors import WatchwordError, unknown
from watchword.features.store import Store, settings_key
from watchword.preferences import preference
from watchword.text.vocabulary import Vocabulary
from watchword.types import StreamName

SHIPPED = Path(__file__).parents[1] / "captioners"
DEFAULT = "base"  # its backbone is downloaded at the first use
BY_PREFERENCE = (DEFAULT, "light")  # `light` needs only the backbone that is installed with Watchword
STREAMS_FILE = "streams.json"
ENSEMBLE_FILE = "ensemble.txt"


@dataclass(frozen=True)
class CaptionerBundle:
    """The files of a captioner, read when they are needed."""

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
        """Of every member of the ensemble; the first is the model of the recipe."""
        own = [self.folder / "model.safetensors", *sorted(self.folder.glob("model.*.safetensors"))]
        return [*own, *(path for name in self._other_members() for path in find_shipped(name).weights)]

    def _other_members(self) -> list[str]:
        try:
            return (self.folder / ENSEMBLE_FILE).read_text("utf-8").split()
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise WatchwordError(f"cannot read {self.folder / ENSEMBLE_FILE}: {error}") from error

    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings of each stream that the captioner reads, by the stream's name in the recipe."""
        path = self.folder / STREAMS_FILE
        try:
            kept = parse_json(path.read_text("utf-8"))
            if not isinstance(kept, dict) or not all(isinstance(one, dict) for one in kept.values()):
                raise ValueError("expected an object of settings for each stream")
        except FileNotFoundError:
            kept = {}
        except (OSError, ValueError) as error:
            raise WatchwordError(f"cannot read {path}: {error}") from error
        return {
            stream: kept[stream] if stream in kept else self._stored_settings(stream)
            for stream in self.recipe.data.streams
        }

    def _stored_settings(self, stream: str) -> dict[str, Any]:
        """Of a run: the settings in its store, if they are those that the run was trained on."""
        try:
            key = str(parse_json((self.folder / "data.json").read_text("utf-8"))["keys"][stream])
        except (OSError, ValueError, KeyError, TypeError):
            key = ""
        try:
            store = Store(store_path(self.recipe.data))
            settings = store.settings(StreamName.parse(stream).with_key(key))
        except WatchwordError as error:
            raise WatchwordError(
                f"{self.name} does not say how its stream {stream} is made, and its store does not either ({error}): "
                f"restore the store's settings.json, or write the settings into {self.folder / STREAMS_FILE}"
            ) from error
        if key and settings_key(settings) != key:
            raise WatchwordError(f"{store.folder} has changed since {self.name} was trained on its {stream}")
        return settings


def find_bundle(name: str | Path) -> CaptionerBundle:
    """A shipped captioner by its name, or a folder."""
    folder = Path(name)
    try:
        if (folder / "recipe.toml").is_file():
            return CaptionerBundle(folder)
        is_folder = folder.is_dir()
    except OSError as error:
        raise WatchwordError(f"cannot read {folder}: {error.strerror or error}") from error
    if is_folder:
        raise WatchwordError(f"{folder} has no recipe.toml: it is neither a run of watchword train nor a captioner")
    return find_shipped(str(name))


def find_shipped(name: str) -> CaptionerBundle:
    if name in shipped():
        return CaptionerBundle(SHIPPED / name)
    raise unknown("captioner", name, shipped() or ["a run folder of watchword train"])


def shipped() -> list[str]:
    """The names of the captioners that come with the package, the best first."""
    found = [path.parent.name for path in sorted(SHIPPED.glob("*/recipe.toml"))]
    return [name for name in BY_PREFERENCE if name in found] + [name for name in found if name not in BY_PREFERENCE]


# --- the backbones that a captioner needs --------------------------------------------------------------------------


def stream_specs(bundle: CaptionerBundle) -> dict[str, Settings]:
    """Extractor -> its spec. The layers of `motion_layers` share one extractor."""
    from watchword.backbones.weights import WEIGHTS
    from watchword.features.extractors import EXTRACTORS
    from watchword.features.networks import WITHOUT_WEIGHTS

    specs: dict[str, Settings] = {}
    for stream, settings in bundle.settings().items():
        name = StreamName.parse(stream).extractor
        if name not in EXTRACTORS:
            raise _cannot_extract(bundle, stream)
        try:
            spec = type(EXTRACTORS[name].spec).read(settings, stream)
        except WatchwordError as error:
            raise _cannot_extract(bundle, stream) from error
        if specs.setdefault(name, spec) != spec:
            raise WatchwordError(f"{bundle.name} reads {name} with two settings: a video can be extracted with one")
        for backbone, sha256 in backbones_of(spec).items():
            if backbone not in WITHOUT_WEIGHTS and (backbone not in WEIGHTS or WEIGHTS[backbone].sha256 != sha256):
                raise WatchwordError(
                    f"{bundle.name} reads {stream} of {backbone} with a checkpoint of your own: extract it with "
                    "watchword features extract, and use watchword evaluate"
                )
    return specs


def _cannot_extract(bundle: CaptionerBundle, stream: str) -> WatchwordError:
    return WatchwordError(
        f"{bundle.name} reads a stream {stream} that watchword features extract cannot make of a video (imported, or "
        "drawn): use a captioner that was trained on extracted streams"
    )


def backbones_of(spec: Any) -> dict[str, str]:
    """Backbone -> sha256 of its weights."""
    found = {spec.backbone: spec.weights}
    if hasattr(spec, "region_backbone"):
        found[spec.region_backbone] = spec.region_weights
    return found


def missing_weights(bundle: CaptionerBundle) -> list[str]:
    """The backbones of a captioner whose weights are not installed."""
    from watchword.backbones.weights import is_present
    from watchword.features.networks import WITHOUT_WEIGHTS

    names = {name for spec in stream_specs(bundle).values() for name in backbones_of(spec)}
    return sorted(name for name in names if name not in WITHOUT_WEIGHTS and not is_present(name))


def choose_bundle(report: Report = no_report) -> tuple[CaptionerBundle, str]:
    """The user's choice, else the first shipped captioner whose backbones are there; and how to get the one before it.

    The backbones of the default captioner are downloaded, unless the user is offline or forbids it.
    """
    if preferred := preference("model"):
        return find_bundle(preferred), ""
    hint = ""
    for name in shipped():
        bundle = find_shipped(name)
        problem = fetch_weights(bundle, report) if name == DEFAULT else ""
        missing = missing_weights(bundle)
        if not missing:
            return bundle, hint
        command = f"watchword weights get {' '.join(missing)}"
        why = problem if command in problem else f"its backbone is missing: {command}" + f" ({problem})" * bool(problem)
        hint = hint or f"the captioner {name} is not used, {why}"
    raise WatchwordError("no captioner came with this installation: name a run of watchword train with --model RUN")


def fetch_weights(bundle: CaptionerBundle, report: Report = no_report) -> str:
    """Downloads the backbones that a captioner needs; what kept them away, if anything."""
    from watchword.backbones.weights import WEIGHTS

    try:
        for name in missing_weights(bundle):
            fetch(WEIGHTS[name], report=report)
    except WatchwordError as error:
        return str(error)
    return ""
