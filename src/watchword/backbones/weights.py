"""Pretrained weights: one table, fetched once, hash-checked, kept as safetensors.

`load_weights(name)` gives named tensors, whichever format the carrier has: from the installed package when pip has
it (nothing of the package is imported), else from the cache folder, else fetched. `load_user_weights(path)` reads a
checkpoint that nobody may ship to you. Networks take tensors, never files: `EfficientNetLite(load_weights(name))`.
"""

import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import safetensors.torch

from watchword.backbones import efficientnet_lite, i3d, transnet, yamnet, yolo_tiny
from watchword.backbones.formats import Tensors, read_pickled_arrays, read_safetensors, read_torch
from watchword.carriers import Carrier, cache_folder, fetch, sha256_of
from watchword.errors import WatchwordError, unknown
from watchword.files import write_whole

WEIGHTS: dict[str, Carrier] = {
    carrier.name: carrier
    for carrier in (
        *efficientnet_lite.CARRIERS,
        i3d.CARRIER,
        yolo_tiny.CARRIER,
        yamnet.CARRIER,
        transnet.CARRIER,
    )
}
READERS: dict[str, Callable[[Path], Tensors]] = {  # by the carried file's ending
    ".pth": read_torch,
    ".ckpt": read_pickled_arrays,
    ".weights": yolo_tiny.read_darknet,
    ".tflite": yamnet.read_yamnet,
}


def load_weights(name: str) -> Tensors:
    """The tensors of a pretrained network, fetched and converted the first time."""
    if name not in WEIGHTS:
        raise unknown("weights", name, WEIGHTS)
    carrier = WEIGHTS[name]
    installed = installed_member(carrier)
    if installed:
        return _read(installed, carrier)
    path = converted_path(carrier)
    if not path.exists():
        tensors = {key: tensor.contiguous() for key, tensor in _read(fetch(carrier), carrier).items()}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WatchwordError(
                f"cannot write {path.parent}: {error.strerror or error}; set WATCHWORD_CACHE to another folder"
            ) from error
        write_whole(path, safetensors.torch.save(tensors))
        return tensors
    return read_safetensors(path)


def load_user_weights(path: Path) -> Tensors:
    """A person's own checkpoint: safetensors, or what `torch.save(network.state_dict(), path)` wrote."""
    if not path.is_file():
        raise WatchwordError(f"no checkpoint at {path}")
    return read_safetensors(path) if path.suffix == ".safetensors" else read_torch(path)


def is_present(name: str) -> bool:
    """Whether `load_weights` can do without the network."""
    carrier = WEIGHTS[name]
    return bool(installed_member(carrier)) or converted_path(carrier).exists() or carrier.path.exists()


def converted_path(carrier: Carrier) -> Path:
    """Named after the hash of its source: a new pin never meets an old conversion."""
    return cache_folder("weights") / f"{carrier.name}-{carrier.sha256[:12]}.safetensors"


def installed_member(carrier: Carrier) -> Path | None:
    """The carried file where pip has installed it, found in the package's list of files."""
    package, _, version = carrier.package.partition("==")
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    if distribution.version != version:
        return None
    for file in distribution.files or ():
        if str(file).endswith(carrier.member):
            path = Path(str(distribution.locate_file(file)))
            return path if path.is_file() else None
    return None


def _read(path: Path, carrier: Carrier) -> Tensors:
    found = sha256_of(path)  # before a single byte is understood
    if found != carrier.sha256:
        raise WatchwordError(
            f"{path} has sha256 {found[:12]}..., expected {carrier.sha256[:12]}...: it was changed or damaged; "
            f"delete it and try again"
        )
    return READERS[path.suffix](path)
