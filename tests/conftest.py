"""What many tests share: a small drawn data set, and streams of noise."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import torch
from hypothesis import settings

from watchword.backbones.formats import Tensors
from watchword.backbones.weights import load_weights, weights_file
from watchword.errors import WatchwordError
from watchword.research.shapes.folder import write_shapes
from watchword.research.shapes.videos import ShapesConfig
from watchword.tensors import Stream

T = TypeVar("T")
SHARED = Path(__file__).parents[1].parent / "shared" / "data"
torch.set_num_threads(1)  # two test workers share two cores
settings.register_profile("tests", deadline=None)  # a busy machine is no failure
settings.load_profile("tests")


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests write neither into the user's cache folder nor into the user's library; test workers share one cache."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder  # a worker's folder lies in the run's
    os.environ.setdefault("WATCHWORD_CACHE", str(shared / "cache"))
    os.environ["WATCHWORD_MODEL"] = "light"  # whatever weights other tests have fetched
    os.environ["WATCHWORD_LIBRARY"] = str(tmp_path_factory.mktemp("library") / "library.db")


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty drawn videos with captions, truth and features."""
    folder = tmp_path_factory.mktemp("shapes")
    write_shapes(folder, ShapesConfig(count=40))
    return folder


def weights_or_skip(name: str) -> Tensors:
    """Pretrained weights, fetched where they are not here yet; only a machine without a network skips."""
    return fetched_or_skip(lambda: load_weights(name))


def graph_or_skip(name: str) -> Path:
    """The same of a network that is a graph of its own."""
    return fetched_or_skip(lambda: weights_file(name))


def fetched_or_skip(fetch: Callable[[], T]) -> T:
    try:
        return fetch()
    except WatchwordError as error:
        if "are you online" in str(error):
            pytest.skip(f"no weights: {error}")
        raise


# What a model must be told to make do with the one stream `appearance`.
ALONE: dict[str, dict[str, str]] = {
    "global2local": {"frame_stream": "appearance", "clip_stream": "appearance", "region_stream": "appearance"},
    "dual_afr": {"variant": "top_only"},
}


def noise_stream(lengths: list[int], locations: int = 2, width: int = 6, seed: int = 0, pad: int = 0) -> Stream:
    """Videos of these lengths, padded to the longest and by `pad` time steps and locations more."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(len(lengths), max(lengths), locations, width, generator=generator)
    mask = torch.zeros(len(lengths), max(lengths), locations, dtype=torch.bool)
    for row, length in enumerate(lengths):
        mask[row, :length] = True
    values[~mask] = 0
    grow = torch.nn.functional.pad
    values, mask = grow(values, (0, 0, 0, pad, 0, pad)), grow(mask, (0, pad, 0, pad))
    times = torch.arange(mask.shape[1]).float().expand(mask.shape[:2])
    return Stream(values, mask, times, torch.rand(*mask.shape, 4, generator=generator))
