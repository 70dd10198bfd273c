"""Pretrained weights: one table, fetched once, hash-checked, kept as safetensors.

`load_weights(name)` gives named tensors, whichever format the package has: from the installed package when pip has
it (nothing of the package is imported), else from the cache folder, else fetched. `load_user_weights(path)` reads a
checkpoint that no package carries. Networks take tensors, never files: `EfficientNetLite(load_weights(name))`.
"""

import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import safetensors.torch

from watchword.atomic_io import write_whole
from watchword.backbones import audio, efficientnet_lite, i3d, regions, transnet, vision_transformers
from watchword.backbones.formats import Tensors, read_pickled_arrays, read_safetensors, read_torch
from watchword.downloads import PackagedFile, cache_folder, fetch, sha256_of
from watchword.errors import WatchwordError, unknown

WEIGHTS: dict[str, PackagedFile] = {
    packaged.name: packaged
    for packaged in (
        *efficientnet_lite.PACKAGED_FILES,
        i3d.PACKAGED_FILE,
        regions.PACKAGED_FILE,
        audio.YAMNET_FILE,
        transnet.PACKAGED_FILE,
        *vision_transformers.PACKAGED_FILES,
    )
}
READERS: dict[str, Callable[[Path], Tensors]] = {  # by the suffix of the packaged file
    ".pth": read_torch,
    ".ckpt": read_pickled_arrays,
    ".weights": regions.read_darknet,
    ".tflite": audio.read_yamnet,
}


def load_weights(name: str) -> Tensors:
    """The tensors of a pretrained network, fetched and converted the first time."""
    if name not in WEIGHTS:
        raise unknown("weights", name, WEIGHTS)
    packaged = WEIGHTS[name]
    installed = installed_member(packaged)
    if installed:
        return _read(installed, packaged)
    path = converted_path(packaged)
    if not path.exists():
        tensors = {key: tensor.contiguous() for key, tensor in _read(fetch(packaged), packaged).items()}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WatchwordError(
                f"cannot write {path.parent}: {error.strerror or error}; set WATCHWORD_CACHE to another folder"
            ) from error
        write_whole(path, safetensors.torch.save(tensors))
        return tensors
    return read_safetensors(path)


def weights_file(name: str) -> Path:
    """The file of a network that is a graph of its own (ONNX), fetched the first time, its hash checked each time."""
    packaged = WEIGHTS[name]
    path = installed_member(packaged) or fetch(packaged)
    _check(path, packaged)
    return path


def load_user_weights(path: Path) -> Tensors:
    """A person's own checkpoint: safetensors, or what `torch.save(network.state_dict(), path)` wrote."""
    if not path.is_file():
        raise WatchwordError(f"no checkpoint at {path}")
    return read_safetensors(path) if path.suffix == ".safetensors" else read_torch(path)


def is_present(name: str) -> bool:
    """Whether `load_weights` can do without the network."""
    packaged = WEIGHTS[name]
    return bool(installed_member(packaged)) or converted_path(packaged).exists() or packaged.path.exists()


def converted_path(packaged: PackagedFile) -> Path:
    """Named after the hash of its source: a new pin never meets an old conversion."""
    return cache_folder("weights") / f"{packaged.name}-{packaged.sha256[:12]}.safetensors"


def installed_member(packaged: PackagedFile) -> Path | None:
    """The packaged file where pip has installed it, found in the package's list of files."""
    package, _, version = packaged.package.partition("==")
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    if distribution.version != version:
        return None
    for file in distribution.files or ():
        if str(file).endswith(packaged.member):
            path = Path(str(distribution.locate_file(file)))
            return path if path.is_file() else None
    return None


def _read(path: Path, packaged: PackagedFile) -> Tensors:
    _check(path, packaged)  # before a single byte is understood
    return READERS[path.suffix](path)


def _check(path: Path, packaged: PackagedFile) -> None:
    found = sha256_of(path)
    if found != packaged.sha256:
        raise WatchwordError(
            f"{path} has sha256 {found[:12]}..., expected {packaged.sha256[:12]}...: it was changed or damaged; "
            f"delete it and try again"
        )
