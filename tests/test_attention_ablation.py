"""Attention with its smaller weights taken away."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.conftest import noise_stream
from watchword.config import read_recipe
from watchword.decoding import teacher_force
from watchword.layers.attention import filter_attention, keep_largest, masked_softmax
from watchword.models import build_model
from watchword.research.papers.global2local import draw
from watchword.research.papers.global2local_ablation import ablation_curves
from watchword.training import train
from watchword.training.evaluation import Search

WEIGHTS = torch.tensor([[[0.1, 0.4, 0.2, 0.3, 0.0]]])
REAL = torch.tensor([[True, True, True, True, False]])
WORDS = torch.tensor([[[4, 5, 6]]] * 2)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.0, [0.1, 0.4, 0.2, 0.3]),
        (0.25, [0, 4 / 9, 2 / 9, 3 / 9]),
        (0.5, [0, 4 / 7, 0, 3 / 7]),
        (0.75, [0, 1, 0, 0]),
        (1.0, [0, 0, 0, 0]),
    ],
)
def test_a_share_of_the_real_weights_is_zero_and_the_others_sum_to_one(share: float, expected: list[float]) -> None:
    torch.testing.assert_close(keep_largest(WEIGHTS, REAL, share), torch.tensor([[[*expected, 0.0]]]))


@pytest.mark.parametrize("locations", [1, 2, 3, 4])
def test_a_share_below_one_leaves_something_however_few_locations_there_are(locations: int) -> None:
    real = torch.ones(1, locations, dtype=torch.bool)
    kept = keep_largest(torch.full((1, 1, locations), 1 / locations), real, 0.9)
    torch.testing.assert_close(kept.sum(-1), torch.ones(1, 1))


def test_of_equal_weights_no_more_than_the_share_goes() -> None:
    kept = keep_largest(torch.full((2, 3, 4), 0.25), torch.ones(2, 4, dtype=torch.bool), 0.5)
    assert ((kept > 0).sum(-1) == 2).all()


@pytest.mark.parametrize("name", ["soft_attention", "global2local"])
def test_a_filter_gets_each_attention_by_name_and_changes_only_the_one_it_means(name: str) -> None:
    torch.manual_seed(0)
    settings = {"name": name, "hidden_size": 8} | ({"instants": "nearest"} if name == "global2local" else {})
    model = build_model(settings, {"appearance": 6, "motion": 4, "regions": 5}, 9).eval()
    streams = {
        "appearance": noise_stream([5, 3]),
        "motion": noise_stream([2, 2], 1, 4),
        "regions": noise_stream([3, 2], 3, 5),
    }
    before = teacher_force(model, streams, WORDS, keep_attention=True)
    heard = set()

    def only_one_motion(where: str, weights: Tensor, mask: Tensor) -> Tensor:
        heard.add(where)
        return keep_largest(weights, mask, 0.5) if where in ("attend.motion", "attend.clips") else weights

    with filter_attention(model, only_one_motion):
        within = teacher_force(model, streams, WORDS, keep_attention=True)
    roles = "appearance motion regions" if name == "soft_attention" else "frames clips aligned regions"
    assert heard == {f"attend.{role}" for role in roles.split()}
    assert (within.attention["motion"] > 0).sum((-2, -1)).max() == 1
    torch.testing.assert_close(within.attention["appearance"][:, :, 0], before.attention["appearance"][:, :, 0])
    after = teacher_force(model, streams, WORDS)
    assert torch.equal(after.outputs, before.outputs)  # nothing of it stays
    assert not torch.allclose(within.outputs, before.outputs)


def test_without_a_filter_weights_are_a_softmax() -> None:
    energies = torch.tensor([[[1.0, 2.0, 3.0]]])
    weights = masked_softmax(energies, torch.tensor([[True, True, False]]))
    torch.testing.assert_close(weights, torch.tensor([[[0.2689414, 0.7310586, 0.0]]]))


def test_the_curve_of_a_run_has_a_point_for_every_attention_and_share(shapes: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f"""
[data]
captions = "{shapes}/captions.jsonl"
store = "{shapes}/store"
streams = ["appearance", "motion"]
captions_per_video = 6
[model]
name = "soft_attention"
hidden_size = 32
[[phases]]
epochs = 2
learning_rate = 1e-2
""")
    run = train(read_recipe(recipe), tmp_path / "run")
    curves = ablation_curves(run, "val", (0.0, 1.0), Search(1), metrics=("BLEU", "ROUGE_L"))
    assert set(curves.masked) == {"attend.appearance", "attend.motion"}
    for scores in curves.masked.values():
        assert scores[0] == curves.whole
    assert curves.ratios("ROUGE_L")["attend.motion"][0] == 1
    pytest.importorskip("matplotlib")
    draw(curves, "ROUGE_L", tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"
