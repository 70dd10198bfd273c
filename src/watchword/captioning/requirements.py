"""Which networks a captioner sees and hears with, and whether their weights are here."""

from typing import Any

from watchword.backbones.weights import WEIGHTS, is_present
from watchword.captioning.bundle import CaptionerFolder, find_shipped, shipped
from watchword.config import Settings
from watchword.errors import WatchwordError
from watchword.features.extractors import EXTRACTORS
from watchword.features.networks import WITHOUT_WEIGHTS


def looks_of(captioner: CaptionerFolder) -> dict[str, Settings]:
    """Extractor -> its spec. The depths of `motion_layers` are one extractor."""
    specs: dict[str, Settings] = {}
    for stream, settings in captioner.settings().items():
        name = extractor_of(stream)
        if name not in EXTRACTORS:
            raise _drawn(captioner, stream)
        try:
            spec = type(EXTRACTORS[name].spec).read(settings, stream)
        except WatchwordError as error:
            raise _drawn(captioner, stream) from error
        if specs.setdefault(name, spec) != spec:
            raise WatchwordError(f"{captioner.name} reads {name} made in two ways: a film can be seen in one")
        for network, weights in networks_of(spec).items():
            if network not in WITHOUT_WEIGHTS and (network not in WEIGHTS or WEIGHTS[network].sha256 != weights):
                raise WatchwordError(
                    f"{captioner.name} reads {stream} of {network} with a checkpoint of your own: extract it with "
                    "watchword features extract, and use watchword evaluate"
                )
    return specs


def _drawn(captioner: CaptionerFolder, stream: str) -> WatchwordError:
    return WatchwordError(
        f"{captioner.name} reads a stream {stream} that watchword features extract cannot make of a film (imported, or "
        "drawn): describe films with a captioner that was trained on extracted streams"
    )


def extractor_of(stream: str) -> str:
    """`motion_layers.2@938e` is made by `motion_layers`."""
    return stream.partition("@")[0].partition(".")[0]


def networks_of(spec: Any) -> dict[str, str]:
    """Network -> sha256 of its weights."""
    return {spec.backbone: spec.weights} | ({spec.eye: spec.eye_weights} if hasattr(spec, "eye") else {})


def missing_weights(captioner: CaptionerFolder) -> list[str]:
    """The networks of a captioner whose weights would have to be fetched."""
    names = {name for spec in looks_of(captioner).values() for name in networks_of(spec)}
    return sorted(name for name in names if name not in WITHOUT_WEIGHTS and not is_present(name))


def choose_captioner() -> tuple[CaptionerFolder, str]:
    """The best shipped captioner whose networks are all here, and how to get a better one, if there is."""
    hint = ""
    for name in shipped():
        captioner = find_shipped(name)
        missing = missing_weights(captioner)
        if not missing:
            return captioner, hint
        hint = hint or f"a fuller captioner, {name}, is one command away: watchword weights get {' '.join(missing)}"
    raise WatchwordError("no captioner came with this installation: name a run of watchword train with --model RUN")
