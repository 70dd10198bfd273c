"""Features of one network from those of another."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from watchword.cli.main import app
from watchword.errors import WatchwordError
from watchword.features.mapping import StoredStream, fit_map, map_features, pairs
from watchword.features.store import Store
from watchword.types import StreamArrays

World = tuple[StoredStream, StoredStream, np.ndarray]


def fill(store: Store, stream: str, videos: dict[str, np.ndarray]) -> None:
    for video, values in videos.items():
        arrays = StreamArrays(values[:, None].astype(np.float32), np.arange(len(values), dtype=float), np.zeros((1, 4)))
        store.write(video, stream, arrays, {"network": stream})


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Twelve videos with features of an old network, ten of them also of a new one, at twice as many time steps."""
    random = np.random.default_rng(0)
    truth = random.normal(size=(6, 3))
    old = {f"video{number}": random.uniform(0, 1, (4, 6)) ** 2 for number in range(12)}
    new = {}
    for video in list(old)[:10]:
        seen = np.sqrt(old[video]) @ truth + 5
        new[video] = np.repeat(seen, 2, axis=0)[:7]  # time steps 0, 2, 4, 6 are the old network's four
    fill(Store(tmp_path / "old"), "vgg", old)
    fill(Store(tmp_path / "new"), "appearance", new)
    return StoredStream.read(f"{tmp_path}/old:vgg"), StoredStream.read(f"{tmp_path}/new:appearance"), truth


def test_a_linear_relation_is_found_and_maps_the_videos_that_are_gone(world: World) -> None:
    old, new, truth = world
    before = new.store.read("video0", "appearance").values
    mapping = fit_map(*pairs(old, new))
    assert mapping.num_videos == 10
    assert mapping.explained > 0.98
    assert len(list(map_features(old, mapping, new, old.store.videos("vgg")))) == 12
    wanted = np.sqrt(old.store.read("video11", "vgg").values[:, 0]) @ truth + 5
    mapped = new.store.read("video11", "appearance")
    np.testing.assert_allclose(mapped.values[:, 0], wanted, atol=0.15)
    assert mapped.provenance["mapped_from"] == "vgg"
    assert np.array_equal(new.store.read("video0", "appearance").values, before)  # extracted features stay


def test_the_command_says_how_much_the_map_explains(world: World, tmp_path: Path) -> None:
    places = ["--from", f"{tmp_path}/old:vgg", "--examples", f"{tmp_path}/new:appearance"]
    done = CliRunner().invoke(app, ["features", "map", *places, "--into", f"{tmp_path}/new:appearance"])
    assert done.exit_code == 0, done.output
    assert "2 videos mapped, 10 were there before; fitted on 10 videos" in done.output


def test_noise_is_not_taken_for_knowledge(world: World) -> None:
    old, new, _ = world
    seen, wanted, videos = pairs(old, new)
    noise = np.random.default_rng(1).normal(size=wanted.shape).astype(np.float32)
    assert fit_map(seen, noise, videos).explained < 0.1


def test_too_few_videos_and_unclear_locations_are_one_line(tmp_path: Path) -> None:
    fill(Store(tmp_path), "vgg", {"video": np.ones((2, 3))})
    place = StoredStream(Store(tmp_path), "vgg")
    with pytest.raises(WatchwordError, match="1 videos have both vgg and vgg"):
        pairs(place, place)
    with pytest.raises(WatchwordError, match="not STORE:STREAM"):
        StoredStream.read("features")
