"""dualAFR: its equations against the same done plainly, its initialisation, its figure and its analysis."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from tests.conftest import noise_stream
from watchword.cli.main import app
from watchword.config import Recipe
from watchword.decoding import teacher_force
from watchword.errors import WatchwordError
from watchword.layers.alignment import ConvolutionAlignment, HypercolumnAlignment, PoolingAlignment, StackingAlignment
from watchword.models import build_model
from watchword.models.dual_afr import DualAFR
from watchword.research.papers.dual_afr import by_kind, on_subject, parts_of
from watchword.research.papers.dual_afr_figure import WordAttention, draw_words, strongest_locations
from watchword.research.shapes.folder import write_shapes
from watchword.research.shapes.videos import ShapesConfig
from watchword.tensors import BOS, EOS, Stream
from watchword.training import loop
from watchword.types import Hypothesis

WIDTHS = {"low": 3, "middle": 4, "deep": 5, "top": 6}
SHAPES = [[2, 4, 4], [2, 2, 2], [1, 2, 2]]
CAPTIONS = torch.tensor([[[5, 6, 7, EOS], [8, 5, EOS, 0]], [[9, 9, 5, 6], [4, EOS, 0, 0]]])
C3D_SHAPES = [[8, 28, 28], [4, 14, 14], [2, 7, 7], [1, 4, 4]]


def small(**settings: object) -> DualAFR:
    torch.manual_seed(0)
    values = {
        "hidden_size": 7,
        "embedding_size": 6,
        "attention_size": 5,
        "dropout": 0.0,
        "initial_range": 0.4,
        "shapes": SHAPES,
        **settings,
    }
    model = build_model({"name": "dual_afr", **values}, WIDTHS, 12)
    assert isinstance(model, DualAFR)
    return model.eval()


def streams() -> dict[str, Stream]:
    """Two videos, of two and three time steps of the deepest layer."""
    return {
        "low": noise_stream([4, 6], 16, 3, seed=1),
        "middle": noise_stream([4, 6], 4, 4, seed=2),
        "deep": noise_stream([2, 3], 4, 5, seed=3),
        "top": noise_stream([1, 2], 1, 6, seed=4),
    }


def plain_outputs(model: DualAFR, row: int, words: list[int]) -> list[Tensor]:
    """Eq. 1 to 8 word by word, layer by layer, for one caption of one video, without padding or batches."""
    seen = streams()
    length = [2, 3][row]
    maps = []
    for number, (name, time_steps, side) in enumerate((("low", 2, 4), ("middle", 2, 2))):
        grid = seen[name].values[row, : time_steps * length].view(-1, side, side, WIDTHS[name]).permute(3, 0, 1, 2)
        found = model.align[number].filters(grid.unsqueeze(0)).relu()  # Eq. 3
        maps.append(torch.nn.functional.max_pool3d(found, (2, side // 2, side // 2))[0].flatten(1).T)
    maps.append(seen["deep"].values[row, :length].reshape(-1, 5))
    locations = torch.cat(maps, 1)  # (P, L * D)
    hidden = model.first(seen["top"].values[row, : row + 1, 0].mean(0)).tanh()
    cell = torch.zeros_like(hidden)
    outputs = [hidden]
    for word in words[:-1]:
        score, weigh = model.over_locations, model.over_layers
        e = score.energy((score.from_value(locations) + score.from_query(hidden)).tanh())  # Eq. 4
        s = (e.softmax(0) * locations).sum(0).view(3, 5)  # Eq. 5
        b = weigh.energy((weigh.from_value(s) + weigh.from_query(hidden)).tanh())  # Eq. 6
        z = (b.softmax(0) * s).sum(0)  # Eq. 7, 8
        hidden, cell = model.cell(torch.cat([model.embedding.weight[word], z]), hidden, cell)
        outputs.append(hidden)
    return outputs


def test_the_equations_done_plainly_say_the_same() -> None:
    model = small()
    found = teacher_force(model, streams(), CAPTIONS).outputs
    for row in range(2):
        for caption in range(2):
            expected = torch.stack(plain_outputs(model, row, CAPTIONS[row, caption].tolist()))
            torch.testing.assert_close(found[row, caption], expected, rtol=1e-4, atol=1e-5)


def test_the_first_word_is_said_of_the_top_vector_alone() -> None:
    model = small()
    other = streams() | {
        name: noise_stream([2 * scale, 3 * scale], locations, WIDTHS[name], seed=9)
        for name, scale, locations in (("low", 2, 16), ("middle", 2, 4), ("deep", 1, 4))
    }
    mine, theirs = (teacher_force(model, seen, CAPTIONS).outputs for seen in (streams(), other))
    assert torch.equal(mine[:, :, 0], theirs[:, :, 0])
    assert not torch.allclose(mine[:, :, 1], theirs[:, :, 1])
    top = streams()["top"]
    whole = torch.stack([top.values[0, 0, 0], top.values[1, :2, 0].mean(0)])
    torch.testing.assert_close(mine[:, 0, 0], model.first(whole).tanh())


def test_maps_are_transformed_once_a_video_however_many_captions() -> None:
    model = small()
    rows = []
    for align in model.align:
        align.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    teacher_force(model, streams(), CAPTIONS.repeat(1, 7, 1))
    assert rows == [2, 2, 2]


def test_normalised_layers_have_one_scale() -> None:
    """Keys of large layers sit where tanh is flat, and then all locations weigh the same."""
    seen = streams()
    loud = seen | {"deep": replace(seen["deep"], values=seen["deep"].values * 1000)}
    for normalise in (False, True):
        model = small(normalise=normalise)
        mine, theirs = (teacher_force(model, given, CAPTIONS).outputs for given in (seen, loud))
        assert torch.allclose(mine, theirs, atol=1e-4) == normalise
    values = small(normalise=True).encode(seen)[0]["values"][1].unflatten(-1, (3, 5))  # the longer video: P, L, D
    torch.testing.assert_close(values.mean(-1), torch.zeros(values.shape[:2]), atol=1e-5, rtol=0)
    torch.testing.assert_close(values[:, 2].std(-1, correction=0), torch.ones(len(values)), atol=1e-3, rtol=0)


def test_keys_stay_where_tanh_is_steep() -> None:
    """However far their weights have drifted, and with the paper's initialisation, which sets all biases to 0."""
    model = small(normalise=True)
    with torch.no_grad():
        for weights in (model.over_locations.from_value.weight, model.first.weight):
            weights += 50
    memory, state = model.encode(streams())
    assert memory["keys"].abs().max() < 4
    assert 0.1 < state["hidden"].abs().mean() < 0.9


def test_hard_attention_takes_one_location_and_one_layer() -> None:
    model = small(variant="hard").train()
    memory, state = model.encode(streams())
    with torch.no_grad():
        seen = model.attend(state["hidden"].expand(-1, 50, -1), memory)
    stacked = memory["values"].detach().unflatten(-1, (3, 5))  # (B, P, L, D)
    for row in range(2):
        distance = (seen.context[row, :, None, None] - stacked[row]).abs().amax(-1)  # (S, P, L)
        location, layer = torch.tensor([divmod(int(best), 3) for best in distance.flatten(1).argmin(1)]).T
        assert float(distance.flatten(1).min(1).values.max()) < 1e-6
        likely = seen.locations[row, range(50), location].log() + seen.layers[row, range(50), layer].log()
        torch.testing.assert_close(seen.log_choice[row], likely)
        assert memory["mask"][row][location].all()
        assert len(set(location.tolist())) > 1
        assert len(set(layer.tolist())) > 1


@pytest.mark.parametrize(
    ("hard", "sharp_locations", "sharp_layers"), [("locations", True, False), ("layers", False, True)]
)
def test_what_is_hard_is_an_option(hard: str, sharp_locations: bool, sharp_layers: bool) -> None:
    model = small(variant="hard", hard=hard)
    memory, state = model.encode(streams())
    seen = model.attend(state["hidden"], memory)
    stacked = memory["values"].unflatten(-1, (3, 5))
    locations, layers = seen.locations[0, 0], seen.layers[0, 0]
    if sharp_locations:
        locations = torch.nn.functional.one_hot(locations.argmax(), len(locations)).float()
    layers = torch.nn.functional.one_hot(layers.argmax(), 3).float() if sharp_layers else layers
    expected = torch.einsum("p,l,pld->d", locations, layers, stacked[0])
    torch.testing.assert_close(seen.context[0, 0], expected)


def test_weights_begin_as_the_appendix_says() -> None:
    model = small(initial_range=0.01, hidden_size=16)
    recurrent = model.cell.gates.weight[:, -16:].chunk(4)
    for gate in recurrent:
        torch.testing.assert_close(gate @ gate.T, torch.eye(16), rtol=1e-4, atol=1e-5)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert not parameter.any(), name
        elif name != "cell.gates.weight":
            assert 0.005 < parameter.abs().max().item() <= 0.01, name
    assert model.cell.gates.weight[:, :-16].abs().max().item() <= 0.01


@pytest.mark.parametrize("kernel", ["appendix", "receptive"])
def test_c3d_has_the_filters_of_the_appendix(kernel: str) -> None:
    widths = {"pool2": 2, "pool3": 3, "pool4": 4, "pool5": 4, "fc7": 6}
    settings = {"name": "dual_afr", "shapes": C3D_SHAPES, "kernel": kernel, "hidden_size": 4, "embedding_size": 4}
    model = build_model(settings, widths, 8)
    assert isinstance(model, DualAFR)
    sizes = [7, 5, 3] if kernel == "appendix" else [15, 7, 3]
    for align, size, ratio in zip(model.align[:-1], sizes, [8, 4, 2], strict=True):
        assert align.filters.kernel_size == (size,) * 3
        assert align.filters.padding == (size // 2,) * 3
        assert align.filters.out_channels == 4
        assert align.ratios == (ratio,) * 3


def test_videos_of_different_lengths_share_a_batch_of_c3d_layers() -> None:
    """32 and 16 frames: what is said of the short video does not depend on the long one beside it."""
    widths = {"pool2": 2, "pool3": 2, "pool4": 2, "pool5": 2, "fc7": 3}
    sizes = {name: (time_steps, side * side) for name, (time_steps, side, _) in zip(widths, C3D_SHAPES, strict=False)}
    torch.manual_seed(0)
    model = build_model(
        {
            "name": "dual_afr",
            "shapes": C3D_SHAPES,
            "hidden_size": 4,
            "embedding_size": 4,
            "attention_size": 4,
            "initial_range": 0.3,
        },
        widths,
        12,
    ).eval()
    both = {name: noise_stream([2 * steps, steps], cells, 2, seed=1) for name, (steps, cells) in sizes.items()}
    both["fc7"] = noise_stream([2, 1], 1, 3)
    short = {
        name: Stream(*(part[1:, : max(1, part.shape[1] // 2)] for part in vars(stream).values()))
        for name, stream in both.items()
    }
    together, alone = (
        teacher_force(model, seen, CAPTIONS[-len(seen["fc7"].values) :]).outputs for seen in (both, short)
    )
    torch.testing.assert_close(together[1:], alone, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("largest", [None, True, False])
def test_padding_never_wins_in_a_window_that_is_half_a_video(largest: bool | None) -> None:
    """Three time steps pooled by two: the same alone and beside a video of six."""
    torch.manual_seed(0)
    align = (
        ConvolutionAlignment(2, 3, (2, 1, 1), "appendix")
        if largest is None
        else (PoolingAlignment(2, 3, (2, 1, 1), largest))
    )
    maps, real = torch.randn(1, 2, 3, 2, 2), torch.ones(1, 1, 3, 2, 2)
    longer, longer_real = (torch.nn.functional.pad(part, (0, 0, 0, 0, 0, 3)) for part in (maps, real))
    torch.testing.assert_close(align(longer, longer_real)[:, :2], align(maps, real))


def test_a_stack_of_locations_and_a_hypercolumn_by_hand() -> None:
    maps = torch.arange(8.0).view(1, 1, 2, 2, 2)
    real = torch.ones_like(maps)
    stack = StackingAlignment(1, 3, (2, 2, 2))
    stack.embed = torch.nn.Identity()  # type: ignore[assignment]
    assert stack(maps, real).flatten().tolist() == list(range(8))
    column = HypercolumnAlignment(1, 3, (2, 1, 1))
    column.embed = torch.nn.Identity()  # type: ignore[assignment]
    assert column(maps, real).flatten().tolist() == [2, 3, 4, 5]  # between the two time steps
    real[0, 0, 1] = 0
    assert column(maps, real).flatten().tolist() == [0, 1, 2, 3]  # the second is not there


def test_a_hypercolumn_reads_the_middle_of_each_block() -> None:
    maps = torch.arange(28.0).view(1, 1, 1, 1, 28)
    column = HypercolumnAlignment(1, 3, (1, 1, 8))
    column.embed = torch.nn.Identity()  # type: ignore[assignment]
    assert column(maps, torch.ones_like(maps)).flatten().tolist() == [3.5, 11.5, 19.5, 25.5]


def test_layers_may_weigh_the_same_as_a_control() -> None:
    weights = small(uniform_layers=True).eval().layer_weights(streams(), CAPTIONS)
    torch.testing.assert_close(weights[:, :, 1:], torch.full_like(weights[:, :, 1:], 1 / 3))


def test_layers_whose_shapes_are_not_as_told_are_refused_with_the_setting_to_change() -> None:
    with pytest.raises(WatchwordError, match=r"model\.shapes=\[\[2,4,4\],\[2,2,2\],\[1,2,2\]\]"):
        small(shapes=[]).encode(streams())  # 16 and 4 locations
    with pytest.raises(WatchwordError, match="cannot be halved"):
        small(shapes=[[1, 10, 10], [1, 4, 4], [1, 4, 4]])
    with pytest.raises(WatchwordError, match="has 1 layers, there are 3"):
        small(shapes=[[1, 1, 1]])
    with pytest.raises(WatchwordError, match="rows"):
        small(shapes=[[2, 8, 8], [2, 2, 2], [1, 2, 2]]).encode(streams())
    with pytest.raises(WatchwordError, match="streams are low, middle"):
        small(top="sound")
    with pytest.raises(WatchwordError, match="there are 3 layers"):
        small(variant="single", layer=4)


def test_the_shapes_that_an_error_names_are_those_of_the_layers() -> None:
    """C3D's layers averaged to 7 x 7, where the recipe expects them as large as they are."""
    widths = {"pool2": 2, "pool3": 2, "pool4": 2, "pool5": 2, "fc7": 3}
    sides = (49, 49, 49, 16, 1)
    averaged = {
        name: noise_stream([2, 2], locations, width)
        for (name, width), locations in zip(widths.items(), sides, strict=True)
    }
    settings = {"name": "dual_afr", "hidden_size": 4, "embedding_size": 4, "shapes": C3D_SHAPES}
    with pytest.raises(WatchwordError, match=r"pool2 has 49 locations .*: model\.shapes=(\S+)$") as caught:
        build_model(settings, widths, 12).encode(averaged)
    told = json.loads(str(caught.value).partition("model.shapes=")[2])
    assert told == [[1, 7, 7], [1, 7, 7], [1, 7, 7], [1, 4, 4]]
    memory, _ = build_model(settings | {"shapes": told}, widths, 12).encode(averaged)
    assert memory["values"].shape == (2, 2 * 16, 4 * 2)


def test_a_single_layer_is_looked_at_as_it_comes() -> None:
    model = small(variant="single", layer=1)
    attention = teacher_force(model, streams(), CAPTIONS, keep_attention=True).attention
    assert {name: tuple(weights.shape) for name, weights in attention.items()} == {"low": (2, 2, 4, 6, 16)}
    memory, _ = model.encode(streams())
    torch.testing.assert_close(memory["values"].view(2, 6, 16, 3), streams()["low"].values)


def test_layer_weights_are_those_of_each_word() -> None:
    model = small()
    weights = model.layer_weights(streams(), CAPTIONS)
    assert weights.shape == (2, 2, 4, 3)
    assert not weights[:, :, 0].any()  # the first word looks at none
    torch.testing.assert_close(weights[:, :, 1:].sum(-1), torch.ones(2, 2, 3))
    memory, state = model.encode(streams())
    first = model.step(torch.full((2, 1), BOS), memory, state).state
    second = model.attend(first["hidden"], memory).layers
    torch.testing.assert_close(weights[:, :1, 1], second)


# --- figure and analysis ---------------------------------------------------------------------------------------------


def test_the_figure_frames_the_strongest_location_below_its_layers() -> None:
    attention = np.zeros((2, 3, 4))
    attention[0, 2, 1], attention[1, 0, 3] = 0.9, 0.8
    assert strongest_locations(attention) == [(2, 1), (0, 3)]
    grey = np.full((40, 60, 3), 90, np.uint8)
    box = np.array([0.5, 0.0, 1.0, 0.5])
    looks = [
        WordAttention("a", 0.0, grey, box, np.zeros(2)),
        WordAttention("dog", 1.0, grey, box, np.array([0.25, 0.75])),
    ]
    picture = np.asarray(draw_words(looks, ["low", "deep"]))
    blue = (picture == (42, 110, 164)).all(-1)
    orange = (picture == (230, 110, 20)).all(-1)
    middle = picture.shape[1] // 2
    assert not blue[:, :middle].any()  # the first word has no layers ...
    assert not orange[:, :middle].any()  # ... and no location
    heights = blue[:, middle:].sum(0)
    assert heights.max() == pytest.approx(3 * heights[heights > 0].min(), rel=0.1)
    assert orange[:, middle:].any()


def test_kinds_of_words_have_the_mean_of_their_layers() -> None:
    captions = [Hypothesis("a", ("a", "striped", "circle"), 0.0), Hypothesis("b", ("the", "dotted", "night"), 0.0)]
    weights = [np.array([[0, 0], [1.0, 0], [0.2, 0.8]]), np.array([[0, 0], [0.5, 0.5], [0, 1.0]])]
    found = by_kind(captions, weights, drawn=True)
    assert found["texture"] == {"words": 2, "weights": [0.75, 0.25], "depth": 1.25, "error": 0.25}
    assert (found["scene"]["weights"], found["scene"]["depth"]) == ([0, 1], 2)
    assert parts_of("a dog and the cat sit on it".split()) == (
        "article noun other article noun verb preposition other".split()
    )
    assert by_kind(captions[:1], weights[:1], drawn=False)["noun"]["weights"] == [0.2, 0.8]


def test_a_cell_counts_if_the_subject_is_seen_in_it() -> None:
    cells = np.array([[[0, 0, 0.5, 1], [0.5, 0, 1, 1]]] * 3)
    boxes = np.array([[0.1, 0.1, 0.4, 0.4], [0.4, 0, 0.6, 1], [0.1, 0.1, 0.4, 0.4]])
    found = on_subject(cells, boxes, np.array([True, True, False]))
    assert found.tolist() == [[True, False], [True, True], [False, False]]


@pytest.mark.slow
def test_drawn_videos_are_learned_and_analysed_from_the_command_line(tmp_path: Path) -> None:
    """Hard attention by the bound, word vectors, the table of layers and the figure on a video."""
    write_shapes(tmp_path / "data", ShapesConfig(count=20), streams=("layer1", "layer2", "layer3", "motion"))
    vectors = tmp_path / "glove.txt"
    vectors.write_text("circle 1 2 3 4 5 6 7 8\nred 0 0 0 0 0 0 0 1\n")
    recipe = Recipe.read({
        "data": {"captions": tmp_path / "data/captions.jsonl", "store": tmp_path / "data/store", "min_count": 1,
                 "streams": ["layer1", "layer2", "layer3", "motion"], "captions_per_video": 2},
        "model": {"name": "dual_afr", "variant": "hard", "shapes": [[1, 16, 16], [1, 8, 8], [1, 4, 4]],
                  "feature_size": 8, "hidden_size": 16, "embedding_size": 8, "attention_size": 8},
        "word_vectors": vectors, "phases": [{"epochs": 1, "loss": {"name": "multi_sample", "samples": 3}}],
    }, "test")  # fmt: skip
    trainer = loop.Trainer(recipe, loop.Run(tmp_path / "unused"))
    row = trainer.vocabulary.encode(["circle"])[0]
    assert trainer.model.embedding.weight[row].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    run = loop.train(recipe, tmp_path / "run")
    truth = str(tmp_path / "data" / "truth.jsonl")
    done = CliRunner().invoke(
        app, ["research", "layers", str(run.folder), "--split", "test", "--truth", truth, "--json"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["layers"] == ["layer1", "layer2", "layer3"]
    for kind in found["kinds"].values():
        assert sum(kind["weights"]) == pytest.approx(1)
    words = ["research", "layers", str(run.folder), "--split", "test", "--truth", truth, "--people", "--json"]
    done = CliRunner().invoke(app, words)
    assert {"texture", "scene"} <= set(json.loads(done.output)["kinds"])  # people say them, whatever the captioner says
