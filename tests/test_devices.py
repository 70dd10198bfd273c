"""Where networks compute. No GPU is needed: tensors of the device `meta` refuse to be mixed with those of the CPU."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.captioners import write_captioner
from tests.conftest import noise_stream, weights_or_skip
from tests.videos import numbered, write_video
from watchword.backbones import vision_transformers
from watchword.captioning.captioner import Captioner
from watchword.decoding import RepetitionFilter
from watchword.errors import WatchwordError
from watchword.features import networks
from watchword.features.extraction import Extraction, prepare
from watchword.features.networks import (
    AUDIO_BACKBONES,
    DETECTORS,
    IMAGE_BACKBONES,
    WINDOW_BACKBONES,
    Networks,
    find_device,
    run_on,
)

META = torch.device("meta")
INPUTS = {
    "efficientnet_lite0": (IMAGE_BACKBONES, torch.zeros(2, 64, 64, 3, dtype=torch.uint8)),
    "i3d": (WINDOW_BACKBONES, torch.zeros(1, 16, 64, 64, 3, dtype=torch.uint8)),
    "yolov4_tiny": (DETECTORS, torch.zeros(1, 3, 416, 416)),
    "yamnet": (AUDIO_BACKBONES, torch.zeros(2, 96, 64)),
}


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in (value.values() if isinstance(value, dict) else value) for tensor in tensors_in(item)]


@pytest.mark.parametrize("name", INPUTS)
def test_a_backbone_computes_on_its_device_alone(name: str) -> None:
    table, inputs = INPUTS[name]
    network = table[name].build(weights_or_skip(name)).to(META)
    assert {tensor.device for tensor in tensors_in(network(inputs.to(META)))} == {META}


def test_callers_of_a_network_give_and_get_tensors_of_the_cpu() -> None:
    seen = []

    class Doubling(torch.nn.Module):
        def forward(self, values: torch.Tensor) -> dict[str, torch.Tensor]:
            seen.append(values.device)
            return {"pooled": torch.ones(2), "pair": (values, [values])}  # type: ignore[dict-item]

    network = run_on(Doubling(), META)
    with pytest.raises(NotImplementedError, match="out of meta tensor"):  # what it gives is moved to the CPU
        network(torch.zeros(3))
    assert seen == [META]
    assert run_on(Doubling(), torch.device("cpu"))(torch.zeros(3))["pooled"].device.type == "cpu"


def test_the_model_of_a_captioner_computes_on_its_device_alone() -> None:
    captioner = Captioner.load("light")
    captioner.device = META
    model = RepetitionFilter(captioner.model, [5])
    streams = {name: noise_stream([4], locations=1, width=1280).to(META) for name in captioner.streams}
    memory, state = model.encode(streams)
    step = model.step(torch.ones(1, 1, dtype=torch.long, device=META), memory, state)
    found = model.log_probabilities(step.outputs)
    assert {tensor.device for tensor in (*memory.values(), *step.state.values(), found)} == {META}


def test_the_device_goes_from_the_captioner_to_every_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[torch.device] = []

    def noted(network: torch.nn.Module, device: torch.device) -> torch.nn.Module:
        asked.append(device)
        return run_on(network, device)

    monkeypatch.setattr(networks, "run_on", noted)
    clip = write_video(tmp_path / "clip.mp4", [numbered(index) for index in range(10)])
    captioner = Captioner.load(write_captioner(tmp_path / "captioner"), device="cpu:0")  # not what is the default
    assert captioner.describe(clip).caption
    assert asked == [torch.device("cpu:0")]
    Extraction(prepare(tmp_path, ["appearance"], device="cpu")).load()
    assert asked[1:] == [torch.device("cpu")]


def test_auto_is_a_gpu_where_there_is_one() -> None:
    assert find_device("auto") == torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize(("name", "message"), [("cuda:99", "finds no device cuda:99"), ("gpu", "unknown device 'gpu'")])
def test_a_device_that_is_not_there_is_one_line(name: str, message: str) -> None:
    with pytest.raises(WatchwordError, match=message):
        Networks({}, name)


def test_onnxruntime_takes_the_gpu_where_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    gpu, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [gpu, cpu])
    assert vision_transformers.providers_for("cuda") == [gpu, cpu]
    assert vision_transformers.providers_for("cpu") == [cpu]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [cpu])
    assert vision_transformers.providers_for("cuda") == [cpu]
