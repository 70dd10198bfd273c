"""What Global2Local adds to the contract of a model."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from benchmarks import other_videos
from tests.conftest import noise_stream
from tests.test_training import assert_same, recipe, weights
from watchword.cli.main import app
from watchword.config import write_toml
from watchword.data.annotations import read_annotations
from watchword.decoding import teacher_force
from watchword.errors import WatchwordError
from watchword.explain.overlay import ACCENT, INK
from watchword.features.store import Store
from watchword.models import build_model
from watchword.models.global2local import Global2Local
from watchword.research.drawn_data import write_video as write_drawn
from watchword.research.papers.side_by_side import GAP, PIXELS, choose
from watchword.research.shapes import ShapesConfig, draw_video
from watchword.tensors import Stream
from watchword.training import loop
from watchword.types import StreamArrays

WIDTHS = {"appearance": 6, "motion": 4, "regions": 5}
WORDS = torch.tensor([[[4, 5, 6], [7, 8, 4]]] * 2)


def small(**settings: object) -> Global2Local:
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "embedding_size": 6, "feature_size": 10, "aligned_size": 7, "attention_size": 9}
    model = build_model({"name": "global2local", **sizes, "dropout": 0.0, **settings}, WIDTHS, 10)
    assert isinstance(model, Global2Local)
    for attend in model.attend.values():
        torch.nn.init.normal_(attend.bias)  # type: ignore[arg-type]  # 0 would hide that it is missing
    return model


def streams(frames: int = 9, clips: int = 9, with_regions: int = 3) -> dict[str, Stream]:
    made = {
        "appearance": noise_stream([frames] * 2, 1, 6, seed=1),
        "motion": noise_stream([clips] * 2, 1, 4, seed=2),
        "regions": noise_stream([with_regions] * 2, 4, 5, seed=3),
    }
    every = {"appearance": frames, "motion": clips, "regions": with_regions}
    times = {name: (torch.arange(count) + 0.5) * 9 / count for name, count in every.items()}
    return {name: Stream(one.values, one.mask, times[name].expand(2, -1), one.boxes) for name, one in made.items()}


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_regions_are_attended_to_in_as_many_frames_as_asked_those_with_the_largest_folded_weights(frames: int) -> None:
    attention = teacher_force(small(frames=frames).eval(), streams(), WORDS, keep_attention=True).attention
    local, aligned = attention["local:regions"].sum(-1), attention["aligned:appearance"].sum(-1)
    folded = aligned.unflatten(-1, (3, 3)).mean(-1)  # Eq. 8
    assert ((local > 0).sum(-1) == frames).all()
    torch.testing.assert_close(local[local > 0], torch.full_like(local[local > 0], 1 / frames))
    chosen = torch.zeros_like(folded).scatter(-1, folded.topk(frames, -1).indices, 1.0)
    assert torch.equal(chosen > 0, local > 0)


def test_training_without_noise_gives_what_testing_gives() -> None:
    """Products with one-hot rows and gathered features are one thing, computed twice."""
    model = small()
    memory, _ = model.eval().encode(streams())
    query = torch.randn(2, 1, 8)
    rows = torch.eye(3)[torch.tensor([[[2, 0]], [[1, 2]]])]  # (B, S, k, G)
    gathered, looked = model._attend_locally(query, rows, memory)
    multiplied, looked_too = model.train()._attend_locally(query, rows.requires_grad_(), memory)
    torch.testing.assert_close(gathered, multiplied)
    torch.testing.assert_close(looked, looked_too)


def test_eq_9_by_hand() -> None:
    model = small().eval()
    memory, _ = model.encode(streams())
    query = torch.randn(2, 1, 8)
    rows = torch.eye(3)[torch.tensor([[[2, 0]], [[1, 2]]])]
    context, _ = model._attend_locally(query, rows, memory)
    attend, regions = model.attend["regions"], memory["regions"][0]  # (G, N, D)
    expected = torch.zeros(10)
    for frame in (2, 0):
        keys = attend.from_value(regions[frame])
        energy = attend.energy(torch.tanh(attend.from_query(query[0, 0]) * keys + attend.bias)).squeeze(-1)  # Eq. 3
        expected = expected + energy.softmax(-1) @ regions[frame]
    torch.testing.assert_close(context[0, 0], expected)


def test_training_draws_frames_and_testing_does_not() -> None:
    def twice(model: Global2Local) -> bool:
        first, second = (teacher_force(model, streams(), WORDS).outputs for _ in range(2))
        return torch.equal(first, second)

    assert not twice(small().train())
    assert twice(small().eval())
    assert twice(small(sampler="argmax").train())
    assert twice(small(sampler="softmax", temperature=0.5).train())


def test_the_choice_learns_through_the_sampler_and_not_through_argmax() -> None:
    """With the embedding of the aligned attention cut off, only the choice of frames can teach it."""
    gradients = {}
    for sampler in ("gumbel", "argmax"):
        model = small(sampler=sampler, temperature=0.5)
        torch.nn.init.zeros_(model.embed_aligned.weight)
        torch.nn.init.constant_(model.embed_aligned.bias, -1.0)
        teacher_force(model, streams(), WORDS).outputs.sum().backward()
        gradients[sampler] = sum(
            float(one.grad.abs().sum()) for one in model.attend["aligned"].parameters() if one.grad is not None
        )
    assert gradients["gumbel"] > 0
    assert gradients["argmax"] == 0


@pytest.mark.parametrize("normalise", [True, False])
def test_where_it_is_normalised_no_step_of_the_optimiser_can_kill_the_aligned_embedding(normalise: bool) -> None:
    model = small(variant="aligned", normalise=normalise).eval()
    with torch.no_grad():
        model.embed_aligned.weight.sub_(1.0)  # all units move in one direction
    assert bool(model.encode(streams())[0]["aligned"].any()) == normalise


def test_a_frame_stands_beside_the_clip_nearest_in_time() -> None:
    """Five clips for nine frames: changing the last clip changes the aligned embedding of the last frames only."""
    model = small(variant="aligned", instants="nearest").eval()
    seen, changed = streams(clips=3), streams(clips=3)
    changed["motion"].values[:, 2] += 1
    before, after = (model.encode(one)[0]["aligned"] for one in (seen, changed))
    moved = (before - after).abs().amax(-1) > 1e-6
    assert moved[0].tolist() == [False] * 6 + [True] * 3


def test_clips_at_other_instants_are_refused_and_videos_without_clips_are_not() -> None:
    model = small(variant="aligned").eval()
    model.encode(streams())
    with pytest.raises(WatchwordError, match=r"9 time steps of appearance and 3 of motion.*model\.instants=nearest"):
        model.encode(streams(clips=3))
    late = streams()
    late["motion"] = replace(late["motion"], times=late["motion"].times + 0.3)
    with pytest.raises(WatchwordError, match=r"0\.30 s apart"):
        model.encode(late)
    late["motion"].mask[:] = False  # stills
    assert model.encode(late)[0]["aligned"].isfinite().all()


@pytest.mark.parametrize("sampler", ["gumbel", "softmax", "straight_through"])
def test_what_is_masked_among_the_regions_is_never_read(sampler: str) -> None:
    """Rows that are mixtures of frames: a region that one of them lacks comes from the others alone."""
    seen, changed = streams(), streams()
    for one in (seen, changed):
        one["regions"].mask[:, 0, 2:] = False
        one["regions"].mask[1, 2] = False
    changed["regions"].values[~changed["regions"].mask] += 9
    model = small(sampler=sampler, temperature=0.5)
    outputs = []
    for one in (seen, changed):
        torch.manual_seed(1)
        followed = teacher_force(model, one, WORDS, keep_attention=True)
        outputs.append(followed.outputs)
        local = followed.attention["local:regions"]  # (B, S, T, F, N)
        assert local[:, :, :, 0, 2:].abs().max() == 0
        torch.testing.assert_close(local.sum((-2, -1)), torch.ones(2, 2, 3))
    assert torch.equal(*outputs)


def test_eq_9_of_a_mixture_of_frames_by_hand() -> None:
    """A region is the mean of the frames that have it, weighed by their shares of the row; their sum weighs it too."""
    seen = streams()
    seen["regions"].mask[0, 0, 2:] = False  # the frame with the largest share lacks two of four regions
    seen["regions"].mask[0, 1, 3] = False
    model = small()
    memory, _ = model.encode(seen)
    query, row = torch.randn(2, 1, 8), torch.tensor([0.6, 0.3, 0.1])
    context, local = model._attend_locally(query, row.expand(2, 1, 1, 3).clone().requires_grad_(), memory)
    attend, regions = model.attend["regions"], memory["regions"][0]  # (G, N, D)
    energies, means = [], []
    for region, having in enumerate(([0, 1, 2], [0, 1, 2], [1, 2], [2])):
        shares = row[having] / row[having].sum()
        means.append(shares @ regions[having, region])
        key = shares @ attend.from_value(regions[having, region])
        asked = torch.tanh(attend.from_query(query[0, 0]) * key + attend.bias)
        energies.append(attend.energy(asked).squeeze() + row[having].sum().log())
    weights = torch.stack(energies).softmax(0)
    torch.testing.assert_close(context[0, 0], weights @ torch.stack(means))
    torch.testing.assert_close(local[0, 0].sum(0), weights)


@pytest.mark.parametrize("sampler", ["gumbel", "argmax"])
def test_a_video_without_regions_has_finite_gradients_and_an_empty_local_context(sampler: str) -> None:
    seen = streams()
    seen["regions"].mask[0] = False
    model = small(sampler=sampler, temperature=0.5)
    followed = teacher_force(model, seen, WORDS, keep_attention=True)
    followed.outputs.sum().backward()
    assert followed.attention["local:regions"][0].abs().max() == 0
    assert all(one.grad.isfinite().all() for one in model.parameters() if one.grad is not None)


@pytest.mark.parametrize("sampler", ["straight_through", "softmax"])
def test_the_choice_learns_by_other_samplers_too(sampler: str) -> None:
    model = small(sampler=sampler, temperature=0.5)
    memory, _ = model.encode(streams())
    torch.manual_seed(2)
    rows = model._choose(torch.rand(2, 1, 9).softmax(-1).requires_grad_(), memory)
    assert rows.requires_grad
    one_hot = (rows > 0.9999).any(-1).all()
    assert bool(one_hot) == (sampler == "straight_through")


def test_eq_4_by_hand() -> None:
    model = small(variant="aligned").eval()
    memory, _ = model.encode(streams())
    query = torch.randn(2, 1, 8)
    contexts, weights = model._attend_globally(query, memory)
    frames = model.project["frames"](streams()["appearance"].values[0, :, 0]).relu()  # Eq. 1
    clips = model.project["clips"](streams()["motion"].values[0, :, 0]).relu()
    parts = {"frames": frames, "clips": clips, "aligned": torch.cat([frames, clips], -1)}
    read = {"frames": frames, "clips": clips, "aligned": model.embed_aligned(parts["aligned"]).relu()}
    for context, (role, part) in zip(contexts, parts.items(), strict=True):
        attend = model.attend[role]
        energy = attend.energy(torch.tanh(attend.from_query(query[0, 0]) * attend.from_value(part) + attend.bias))
        by_hand = energy.squeeze(-1).softmax(-1)  # Eq. 2, 3
        torch.testing.assert_close(weights[role][0, 0], by_hand)
        torch.testing.assert_close(context[0, 0], by_hand @ read[role])  # Eq. 4


def test_eq_10_and_11_by_hand() -> None:
    """Both layers of the GRU: [x_G, x_L, word] into the first; the second's output is the step's and the next query."""
    model = small(frames=1).eval()
    memory, state = model.encode(streams())
    assert all(tensor.abs().max() == 0 for tensor in state.values())
    state = {name: torch.randn(2, 1, 8) for name in state}
    words = torch.tensor([[4], [7]])
    step = model.step(words, memory, state)
    contexts, weights = model._attend_globally(state["hidden2"], memory)
    local, _ = model._attend_locally(state["hidden2"], model._choose(weights["aligned"], memory), memory)
    inputs = torch.cat([*contexts, local, model.embedding(words)], -1)[0, 0]
    hidden = []
    for cell, given, before in (
        (model.first_layer, inputs, state["hidden1"][0, 0]),
        (model.second_layer, step.state["hidden1"][0, 0], state["hidden2"][0, 0]),
    ):
        of_input, of_state = given @ cell.weight_ih.T + cell.bias_ih, before @ cell.weight_hh.T + cell.bias_hh
        reset, update = (of_input[:16] + of_state[:16]).sigmoid().chunk(2)
        hidden.append((1 - update) * (of_input[16:] + reset * of_state[16:]).tanh() + update * before)
    torch.testing.assert_close(step.state["hidden1"][0, 0], hidden[0])
    torch.testing.assert_close(step.outputs[0, 0], hidden[1])


@pytest.mark.parametrize("variant", ["global", "aligned", "local"])
def test_it_works_in_double_precision(variant: str) -> None:
    model = small(variant=variant, temperature=0.5).double()
    seen = {name: replace(stream, values=stream.values.double()) for name, stream in streams().items()}
    assert teacher_force(model, seen, WORDS).outputs.dtype == torch.float64


def test_the_first_state_may_be_made_of_the_mean_features() -> None:
    state = small(first_state="mean").eval().encode(streams())[1]
    assert not torch.equal(state["hidden1"][0], state["hidden1"][1])


def test_fewer_frames_than_asked_for_are_all_attended_to() -> None:
    seen = streams(with_regions=3)
    seen["regions"].mask[0, 1:] = False
    for model in (small(frames=3).eval(), small(frames=3).train()):
        followed = teacher_force(model, seen, WORDS, keep_attention=True)
        assert followed.outputs.isfinite().all()
        local = followed.attention["local:regions"].sum(-1)
        torch.testing.assert_close(local[0], torch.tensor([1.0, 0, 0]).expand_as(local[0]))
    one, three = (teacher_force(small(frames=frames).eval(), seen, WORDS).outputs[0] for frames in (1, 3))
    torch.testing.assert_close(one, three)  # a frame that is not there adds nothing


def test_the_output_of_the_upper_layer_directs_the_attention() -> None:
    model = small().eval()
    memory, state = model.encode(streams())
    words = torch.tensor([[4], [4]])
    plain = model.step(words, memory, state).attention
    lower = model.step(words, memory, state | {"hidden1": state["hidden1"] + 1}).attention
    upper = model.step(words, memory, state | {"hidden2": state["hidden2"] + 1}).attention
    for name in ("appearance", "motion", "aligned:appearance", "local:regions"):
        torch.testing.assert_close(plain[name], lower[name], rtol=0, atol=0)
        assert not torch.allclose(plain[name], upper[name])


def test_a_stream_that_is_missing_is_one_line() -> None:
    with pytest.raises(WatchwordError, match=r"data\.streams lack regions"):
        build_model({"name": "global2local"}, {"appearance": 6, "motion": 4}, 10)
    build_model({"name": "global2local", "variant": "aligned"}, {"appearance": 6, "motion": 4}, 10)


def test_frames_are_drawn_by_float32_weights_under_bfloat16() -> None:
    model = small().train()
    with torch.autocast("cpu", torch.bfloat16):
        memory, state = model.encode(streams())
        weights = model._attend_globally(state["hidden2"], memory)[1]["aligned"]
        assert model._choose(weights, memory).dtype == torch.float32


def test_frames_are_drawn_by_the_seed_so_a_run_that_is_repeated_ends_in_the_same_weights(
    shapes: Path, tmp_path: Path
) -> None:
    sizes = {"hidden_size": 8, "embedding_size": 6, "feature_size": 10, "aligned_size": 7, "attention_size": 9}
    data = recipe(shapes).data.model_dump() | {"streams": ("appearance", "motion", "regions")}
    phases = [{"epochs": 1, "learning_rate": 0.01}]
    settings = recipe(shapes, model={"name": "global2local", **sizes}, data=data, phases=phases, precision="float32")
    once, again = (loop.train(settings, tmp_path / name) for name in ("once", "again"))
    assert_same(weights(once.folder), weights(again.folder))


# --- the control whose regions are another video's --------------------------------------------------------------------


def test_a_control_gives_each_video_the_features_of_another_one_at_its_own_times(tmp_path: Path) -> None:
    store, boxes = Store(tmp_path), np.array([[0, 0, 1, 1]], np.float32)
    for number in range(6):
        values = np.full((2 + number % 2, 1, 3), number, np.float32)
        store.write(f"v{number}", "regions", StreamArrays(values, np.arange(len(values)) + number, boxes), {"seed": 9})
    assert other_videos.write_others(store, "regions", seed=1) == 6
    assert store.streams() == ["regions", "regions_of_others"]
    served = set()
    for number in range(6):
        found = store.read(f"v{number}", "regions_of_others")
        assert found.times.tolist() == store.read(f"v{number}", "regions").times.tolist()
        served.add(other := int(found.values[0, 0, 0]))
        assert other != number
        assert found.provenance["other"] == f"v{other}"
    assert served == set(range(6))
    store.write("long", "regions", StreamArrays(np.ones((9, 1, 3), np.float32), np.arange(9.0), boxes), {"seed": 9})
    with pytest.raises(WatchwordError, match="no other video has 9 time steps of regions, as long has"):
        other_videos.others_of(store, "regions", seed=1)


# --- Fig. 5 ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def evaluated(shapes: Path, tmp_path: Path) -> list[Path]:
    """Two runs that say different things of one test video, the same of another, and nothing of a third."""
    folders = [tmp_path / "global", tmp_path / "local"]
    for folder, caption in zip(folders, ("a circle", "a red circle moves"), strict=True):
        folder.mkdir()
        settings = recipe(shapes).model_dump(mode="json", exclude_none=True)
        (folder / "recipe.toml").write_text(write_toml(settings))
        rows = [{"image_id": "shapes000008", "caption": caption}, {"image_id": "shapes000009", "caption": "a star"}]
        (folder / "predictions-test.json").write_text(json.dumps(rows))
    return folders


def test_captions_of_runs_and_people_stand_below_the_frames_of_a_video(
    evaluated: list[Path], shapes: Path, tmp_path: Path
) -> None:
    write_drawn(tmp_path / "videos" / "shapes000008.mp4", draw_video(ShapesConfig(count=40), 8), 8.0)
    command = ["research", "side-by-side", *map(str, evaluated), "--videos", str(tmp_path / "videos")]
    done = CliRunner().invoke(app, [*command, "--output", str(tmp_path / "captions.png")])
    assert done.exit_code == 0, done.output
    assert "shapes000008" in done.output
    assert "shapes000009" not in done.output  # the runs say the same of it
    picture = np.asarray(Image.open(tmp_path / "captions.png")).astype(int)
    frames = picture[GAP : GAP + PIXELS, GAP : GAP + PIXELS]
    assert frames.std() > 20, "a frame of the video"
    runs = (np.abs(picture - ACCENT).sum(-1) < 30).any(1)
    people = (np.abs(picture - INK).sum(-1) < 30)[GAP + PIXELS :].any(1)
    assert np.flatnonzero(runs).max() < GAP + PIXELS + np.flatnonzero(people).max(), "people stand last"


def test_captions_side_by_side_are_a_table_too(evaluated: list[Path]) -> None:
    command = ["research", "side-by-side", *map(str, evaluated), "--markdown", "--count", "1", "--references", "1"]
    head, rule, row = CliRunner().invoke(app, command, catch_exceptions=False).stdout.splitlines()
    assert head.split(" | ")[1:-1] == [run.name for run in evaluated]
    assert len({line.count("|") for line in (head, rule, row)}) == 1


def test_captions_side_by_side_are_data_too(evaluated: list[Path], shapes: Path) -> None:
    command = ["research", "side-by-side", *map(str, evaluated), "--json", "--references", "3"]
    (found,) = json.loads(CliRunner().invoke(app, command).output)
    clip = next(clip for clip in read_annotations(shapes / "captions.jsonl") if clip.video == "shapes000008")
    assert found == {
        "video": "shapes000008",
        "captions": {"global": "a circle", "local": "a red circle moves"},
        "references": list(clip.captions[:3]),
    }
    named = json.loads(CliRunner().invoke(app, [*command, "--video", "shapes000009"]).output)
    assert [one["video"] for one in named] == ["shapes000009"]
    with pytest.raises(WatchwordError, match="unknown video with captions of all runs 'shapes000018'"):
        CliRunner().invoke(app, [*command, "--video", "shapes000018"], catch_exceptions=False, standalone_mode=False)


def test_videos_are_drawn_by_the_seed_among_those_of_which_the_runs_differ() -> None:
    people = {f"v{number}": ["a dog"] for number in range(20)}
    said = {"one": dict.fromkeys(people, "a dog"), "two": {name: f"a {name[-1]}" for name in people}}
    said["two"]["v7"] = "a dog"
    drawn = choose(said, people, [], 19, seed=1)
    assert len(set(drawn)) == 19
    assert "v7" not in drawn
    assert drawn == choose(said, people, [], 19, seed=1) != choose(said, people, [], 19, seed=2)
    with pytest.raises(WatchwordError, match="say the same of every video"):
        choose({"one": said["one"], "again": said["one"]}, people, [], 3, seed=1)
