"""STaTS: each equation against the same thing done plainly, the ranked loss, the category, the analyses."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from tests.conftest import noise_stream
from watchword.captioning.captioner import Captioner
from watchword.cli.main import app
from watchword.config import Recipe
from watchword.data.annotations import read_annotations
from watchword.data.imports import write_categories
from watchword.decoding import teacher_force
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.losses import Material, build_loss
from watchword.losses.ranked import RankedSteps, ranking_losses
from watchword.models import Model, build_model
from watchword.models.stats import Fusion, SpatioTemporal, Stats, TemporoSpatial
from watchword.research.analysis.drawn_videos import decisions
from watchword.research.analysis.word_stats import pos_stats_of
from watchword.research.drawn_data import write_video
from watchword.research.papers.stats import ranking, sharpness
from watchword.research.papers.stats_figure import draw_words, frame_of_each_word
from watchword.research.shapes import ShapesConfig, draw_videos, read_truth, write_shapes
from watchword.tensors import BOS, EOS, PAD, Batch, Stream
from watchword.text.vocabulary import Vocabulary
from watchword.training import loop
from watchword.training.evaluation import evaluate
from watchword.types import Clip, Frames, Hypothesis

QUERY, SIZE, WIDTH = 5, 6, 4
SMALL = {
    "name": "stats",
    "hidden_size": 12,
    "embedding_size": 8,
    "feature_size": 10,
    "attention_size": 6,
    "dropout": 0.0,
}
CAPTIONS = torch.tensor([[[BOS, 5, 6, EOS], [BOS, 7, EOS, PAD]], [[BOS, 4, 4, EOS], [PAD, PAD, PAD, PAD]]])
MATERIAL = Material(Vocabulary(["go", "on", "up", "by"]), {"a": ["go on"], "b": ["up by"]}, num_words=6, max_words=3)


def small(**settings: object) -> Stats:
    torch.manual_seed(0)
    model = build_model({**SMALL, **settings}, {"grid": 6}, 8)
    assert isinstance(model, Stats)
    return model


def batch(pad: int = 0, captions: Tensor = CAPTIONS) -> Batch:
    return Batch(("a", "b"), {"grid": noise_stream([5, 3], locations=3, seed=1, pad=pad)}, captions)


def seen(lengths: list[int], locations: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Values, mask, and queries of two captions a video."""
    stream = noise_stream(lengths, locations, SIZE, seed=3)
    return stream.values, stream.mask, torch.randn(len(lengths), 2, QUERY, generator=torch.Generator().manual_seed(4))


# --- the equations ---------------------------------------------------------------------------------------------------


def test_a_grids_cells_are_weighed_by_their_mean_over_time_and_alike_in_all_time_steps() -> None:
    values, mask, query = seen([4, 2])
    st = SpatioTemporal(QUERY, SIZE, WIDTH, "mean", has_grid=True)
    weights = st.location_weights(query, st.encode(values, mask)["keys"], mask)
    for row, length in enumerate((4, 2)):
        cells = values[row, :length].mean(0)
        mixed = st.attend.from_query(query[row]).unsqueeze(1) + st.attend.from_value(cells)
        expected = st.attend.energy(mixed.tanh()).squeeze(-1).softmax(-1)  # (S, N)
        for time_step in range(length):
            torch.testing.assert_close(weights[row, :, time_step], expected)


def test_regions_are_weighed_time_step_by_time_step() -> None:
    values, mask, query = seen([3])
    mask[0, 1, 2] = False
    values[0, 1, 2] = 0
    st = SpatioTemporal(QUERY, SIZE, WIDTH, "mean", has_grid=False)
    weights = st.location_weights(query, st.encode(values, mask)["keys"], mask)
    mixed = st.attend.from_query(query[0]).unsqueeze(1) + st.attend.from_value(values[0, 1, :2])
    torch.testing.assert_close(weights[0, :, 1, :2], st.attend.energy(mixed.tanh()).squeeze(-1).softmax(-1))
    assert weights[0, :, 1, 2].abs().max() == 0
    assert not torch.equal(weights[0, :, 0], weights[0, :, 2])


@pytest.mark.parametrize("has_grid", [True, False])
def test_the_lstm_reads_each_videos_time_steps_to_its_own_last(has_grid: bool) -> None:
    """All captions of all videos at once is the same as time step by time step, one caption after the other."""
    values, mask, query = seen([4, 2])
    st = SpatioTemporal(QUERY, SIZE, WIDTH, "ranked", has_grid)
    memory = st.encode(values, mask)
    found = st(query, memory)
    locations = st.location_weights(query, memory["keys"], mask)
    assert found.projections is not None
    for row, length in enumerate((4, 2)):
        for caption in range(2):
            time_steps = locations[row, caption, :length].unsqueeze(1) @ values[row, :length]  # (F, 1, D)
            _, (hidden, _) = st.reader(time_steps)
            torch.testing.assert_close(found.features[row, caption], hidden[0, 0])
            torch.testing.assert_close(found.projections[row, caption, :length], time_steps[:, 0] @ hidden[0, 0])


def test_mean_stands_beside_the_lstm() -> None:
    values, mask, query = seen([4, 2])
    st = SpatioTemporal(QUERY, SIZE, WIDTH, "mean_ranked", has_grid=True)
    memory = st.encode(values, mask)
    locations = st.location_weights(query, memory["keys"], mask)
    time_steps = locations[1, 0, :2].unsqueeze(1) @ values[1, :2]
    expected = st.join(torch.cat([time_steps.mean(0)[0], st.reader(time_steps)[1][0][0, 0]]))
    torch.testing.assert_close(st(query, memory).features[1, 0], expected)


@pytest.mark.parametrize("pooling", ["mean", "lstm", "mean_ranked"])
def test_one_location_a_time_step_is_read_once_a_video_with_the_same_result(pooling: str) -> None:
    values, mask, query = seen([4, 2], locations=1)
    st = SpatioTemporal(QUERY, SIZE, WIDTH, pooling, has_grid=True)  # type: ignore[arg-type]
    once = st(query, st.encode(values, mask))
    padded = torch.nn.functional.pad(values, (0, 0, 0, 1)), torch.nn.functional.pad(mask, (0, 1))
    anew = st(query, st.encode(*padded))
    torch.testing.assert_close(once.features, anew.features)
    torch.testing.assert_close(once.weights, anew.weights[..., :1])
    if pooling != "mean":
        torch.testing.assert_close(once.projections, anew.projections)


def test_at_low_temperature_ts_is_one_time_step_and_its_locations() -> None:
    """Eq. 9 to 11 with their argmax, on regions that are not always there."""
    values, mask, query = seen([4, 3])
    mask[0, :, 1] = torch.tensor([True, False, True, False])
    mask[0, :, 2] = torch.tensor([False, True, False, True])
    values = values * mask.unsqueeze(-1)
    torch.manual_seed(0)  # no two energies are nearly equal
    ts = TemporoSpatial(QUERY, SIZE, WIDTH, temperature=1e-4)
    found = ts(query, ts.encode(values, mask))
    for row in range(2):
        for caption in range(2):
            time_steps = zip(values[row], mask[row], strict=True)
            means = torch.stack([time_step[real].mean(0) for time_step, real in time_steps if real.any()])

            def energies(attend: torch.nn.Module, rows: Tensor, asked: Tensor = query[row, caption]) -> Tensor:
                return attend.energy((attend.from_query(asked) + attend.from_value(rows)).tanh()).squeeze(-1)  # type: ignore[operator]

            chosen = int(energies(ts.choose, means).argmax())  # Eq. 9
            real = mask[row, chosen]
            locations = energies(ts.attend, values[row, chosen][real]).softmax(-1)  # Eq. 10
            torch.testing.assert_close(found.weights[row, caption, chosen][real], locations, atol=1e-4, rtol=1e-3)
            expected = locations @ values[row, chosen][real]  # Eq. 11
            torch.testing.assert_close(found.features[row, caption], expected, atol=1e-4, rtol=1e-3)


def test_straight_through_reads_one_time_step_and_learns_by_the_soft_choice() -> None:
    values, mask, query = seen([4, 3, 0])
    torch.manual_seed(0)
    soft, hard = (TemporoSpatial(QUERY, SIZE, WIDTH, 0.5, straight) for straight in (False, True))
    hard.load_state_dict(soft.state_dict())
    found = hard(query, hard.encode(values, mask))
    chosen = found.weights.sum(-1)  # (B, S, F)
    assert ((chosen - 1).abs() < 1e-5).sum(-1)[:2].eq(1).all()
    assert found.weights[2].abs().max() == 0
    assert torch.equal(chosen.argmax(-1), soft(query, soft.encode(values, mask)).time_steps.argmax(-1))  # type: ignore[union-attr]
    assert 0.26 < float(found.time_steps[0].detach().max()) < 0.9  # type: ignore[index]
    found.features.sum().backward()
    assert hard.choose.energy.weight.grad.abs().max() > 0  # type: ignore[union-attr]
    assert small(choice="straight_through").ts[0].straight_through


@pytest.mark.parametrize("variant", ["st", "ts", "stats"])
@pytest.mark.parametrize("pooling", ["mean_ranked", "mean_attention"])
def test_it_works_in_double_precision(variant: str, pooling: str) -> None:
    model = small(variant=variant, pooling=pooling).double()
    streams = {name: replace(stream, values=stream.values.double()) for name, stream in batch().streams.items()}
    assert teacher_force(model, streams, CAPTIONS[:, :, 1:]).outputs.dtype == torch.float64


def test_fusion_is_equation_12() -> None:
    fuse = Fusion(QUERY, SIZE, WIDTH)
    query, st, ts = torch.randn(1, 1, QUERY), torch.randn(1, 1, SIZE), torch.randn(1, 1, SIZE)
    beta1 = fuse.st_energy.weight @ (fuse.from_st(st) + fuse.from_query(query)).tanh().flatten()
    beta2 = fuse.ts_energy.weight @ (fuse.from_ts(ts) + fuse.from_query(query)).tanh().flatten()
    torch.testing.assert_close(fuse(query, st, ts).flatten(), beta1.exp() / (beta1.exp() + beta2.exp()))


def test_earlier_words_are_attended_to_beside_the_lstms_state() -> None:
    model = small().eval()
    memory, state = model.encode(batch().streams)
    first, other = (model.step(torch.full((2, 1), word), memory, state).state for word in (4, 5))
    words = torch.full((2, 1), 6)
    same_lstm = {**other, "hidden": first["hidden"], "cell": first["cell"]}
    one, two = model.step(words, memory, first), model.step(words, memory, same_lstm)
    assert one.state["words"].shape[2] == 2
    assert (one.attention["grid"] - two.attention["grid"]).abs().max() > 1e-5


@pytest.mark.parametrize("variant", ["st", "ts", "stats"])
def test_a_share_of_st_is_known_for_every_word(variant: str) -> None:
    model = small(variant=variant).eval()
    states = model.retrace(batch().streams, CAPTIONS[:, :, 1:])
    shares = torch.stack([model.share_of_st(state)["grid"] for state in states], -1)
    assert shares.shape == (2, 2, 3)
    if variant == "stats":
        assert 0 < shares.min() < shares.max() < 1
    else:
        assert (shares == float(variant == "st")).all()


@pytest.mark.parametrize("settings", [{"variant": "ts"}, {"pooling": "ranked"}, {"without_grid": ["grid"]}])
def test_every_parameter_learns_where_there_are_locations_to_choose_from(settings: dict[str, object]) -> None:
    model = small(**settings)
    build_loss({"name": "cross_entropy"}, MATERIAL)(model, batch(), 0.0).total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


# --- the ranked loss -------------------------------------------------------------------------------------------------


def test_the_ranked_loss_of_three_time_steps_by_hand() -> None:
    losses = ranking_losses(torch.tensor([[[0.0, 1.0, 3.0]]]), torch.tensor([[True, True]]), margin=1.0)
    expected = (math.log(2) + math.log(1 + math.exp(-1))) / 2  # zeta 0 and -1
    assert losses.item() == pytest.approx(expected)


def test_pairs_with_nothing_to_see_do_not_rank_and_one_time_step_alone_costs_nothing() -> None:
    projections = torch.tensor([[[0.0, 9.0, 0.0, 1.0]], [[2.0, 0.0, 0.0, 0.0]]])
    pairs = torch.tensor([[False, False, True], [False, False, False]])
    assert ranking_losses(projections, pairs, 1.0).flatten().tolist() == pytest.approx([math.log(2), 0.0])


def overhear(model: Model, one: Batch) -> Tensor:
    steps = RankedSteps(model, margin=1.0)
    teacher_force(steps, one.streams, one.captions[:, :, 1:])
    return steps.mean()


def test_the_log_shows_the_share_of_st_over_real_words() -> None:
    model = small()
    shown = build_loss({"name": "ranked"}, MATERIAL)(model, batch(), 0.0).shown
    states = model.retrace(batch().streams, CAPTIONS[:, :, 1:])
    shares = torch.stack([model.share_of_st(state)["grid"] for state in states], -1)  # (B, S, T)
    counted = torch.tensor([[[1, 1, 1], [1, 1, 0]], [[1, 1, 1], [1, 0, 0]]])  # steps that read a word before the end
    torch.testing.assert_close(shown["st_share grid"], (shares * counted).sum() / counted.sum())


def test_neither_padding_words_nor_padding_time_steps_rank() -> None:
    model = small()
    plain = overhear(model, batch())
    longer = torch.nn.functional.pad(CAPTIONS, (0, 3), value=PAD)
    torch.testing.assert_close(overhear(model, batch(captions=longer)), plain)
    torch.testing.assert_close(overhear(model, batch(pad=2)), plain)
    states = model.retrace(batch().streams, CAPTIONS[:, :, 1:])
    real = CAPTIONS[:, :, 1:] != PAD  # the steps that say a word, also those of an empty caption: BOS is not PAD
    real[1, 1, 0] = True
    pairs = torch.tensor([[True] * 4, [True, True, False, False]])
    by_hand = torch.stack([ranking_losses(model.projections(state)["grid"], pairs, 1.0) for state in states], -1)
    torch.testing.assert_close(plain, by_hand[real].mean())


def test_without_weight_the_ranked_loss_is_the_loss_it_stands_beside() -> None:
    model = small()
    alone = build_loss({"name": "cross_entropy"}, MATERIAL)(model, batch(), 0.0)
    beside = build_loss({"name": "ranked", "weight": 0.0}, MATERIAL)(model, batch(), 0.0)
    torch.testing.assert_close(beside.total, alone.total)
    weighed = build_loss({"name": "ranked", "weight": 2.0}, MATERIAL)(model, batch(), 0.0)
    torch.testing.assert_close(weighed.total, alone.total + 2 * overhear(model, batch()) * alone.weight)


@pytest.mark.parametrize("inner", ["self_critical", "reinforce"])
def test_it_stands_beside_rewards_too(inner: str) -> None:
    settings = {"name": inner, "rewards": {"Bleu_4": 1.0}, "rollouts": 2, "cross_entropy": 0.5}
    objective = build_loss({"name": "ranked", "words": settings}, MATERIAL)
    assert objective.once_a_video
    model = small()
    loss = objective(model, batch(), 0.0)
    assert loss.shown.keys() >= {"reward", "ranked", "words"}
    loss.total.backward()
    assert model.st[0].reader.weight_hh_l0.grad.abs().max() > 0
    assert model.training


def test_what_ranks_nothing_is_refused_in_one_line() -> None:
    objective = build_loss({"name": "ranked"}, MATERIAL)
    plain = build_model({"name": "soft_attention"}, {"grid": 6}, 8)
    with pytest.raises(WatchwordError, match=r"model\.name=stats"):
        objective(plain, batch(), 0.0)
    for settings in ({"pooling": "mean"}, {"variant": "ts"}, {"pooling": "attention"}):
        with pytest.raises(WatchwordError, match=r"model\.pooling"):
            objective(small(**settings), batch(), 0.0)


def test_ranking_is_learned_where_videos_have_a_direction() -> None:
    """Videos that drift each along a way of its own: after training, projections rise on videos never seen."""
    torch.manual_seed(0)
    model = small(variant="st", pooling="ranked", feature_size=16)
    objective = build_loss({"name": "ranked", "weight": 10.0}, MATERIAL)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def drifting(seed: int, count: int) -> Batch:
        generator = torch.Generator().manual_seed(seed)
        way = torch.randn(count, 1, 2, 6, generator=generator)
        values = 0.3 * way * torch.arange(-3, 4).view(1, 7, 1, 1) + 0.5
        stream = Stream(
            values, torch.ones(count, 7, 2, dtype=torch.bool), torch.zeros(count, 7), torch.zeros(count, 7, 2, 4)
        )
        caption = torch.tensor([[BOS, 4, EOS]]).expand(count, 1, 3)
        return Batch(tuple(str(row) for row in range(count)), {"grid": stream}, caption)

    for number in range(120):
        loss = objective(model, drifting(number, 16), 0.0)
        optimizer.zero_grad()
        (loss.total / loss.weight).backward()
        optimizer.step()
    held_out = drifting(10_000, 64)
    with torch.no_grad():
        projections = model.projections(model.retrace(held_out.streams, held_out.captions[:, :, 1:])[0])["grid"]
    assert (projections.diff(dim=-1) > 0).float().mean() > 0.9


# --- the category ----------------------------------------------------------------------------------------------------


def test_a_category_is_a_stream_of_one_hot_numbers_and_unknown_is_zeros(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    clips = [Clip("a", "train", ("x",), 2), Clip("b", "test", ("x",), 0), Clip("c", "train", ("x",))]
    assert write_categories(clips, store) == 3
    assert [store.read(video, "category").values.tolist() for video in "abc"] == [
        [[[0, 0, 1]]],
        [[[1, 0, 0]]],
        [[[0, 0, 0]]],
    ]
    write_categories([replace(clips[0], category=1), *clips[1:]], store)
    assert len(store.keys("category")) == 2, "other categories must not pass for the same stream"
    with pytest.raises(WatchwordError, match="none of the 1 clips has a category"):
        write_categories(clips[2:], store)


def test_a_category_changes_the_caption_and_gets_no_attention() -> None:
    torch.manual_seed(0)
    model = build_model(SMALL, {"grid": 6, "category": 3}, 8).eval()
    kinds = torch.eye(3)[:2].view(2, 1, 1, 3)
    category = Stream(kinds, torch.ones(2, 1, 1, dtype=torch.bool), torch.zeros(2, 1), torch.zeros(2, 1, 1, 4))
    streams = dict(batch().streams) | {"category": category}
    followed = teacher_force(model, streams, CAPTIONS[:, :, 1:], keep_attention=True)
    assert followed.attention.keys() == {"grid"}
    other = streams | {"category": replace(category, values=kinds.flip(0))}
    assert (teacher_force(model, other, CAPTIONS[:, :, 1:]).outputs - followed.outputs).abs().max() > 1e-3
    with pytest.raises(WatchwordError, match="needs a stream to attend to"):
        build_model(SMALL, {"category": 3}, 8)


# --- the analyses ----------------------------------------------------------------------------------------------------


def test_each_word_shows_its_time_step_with_the_largest_weight_and_the_heat_map_of_it() -> None:
    attention = np.zeros((2, 3, 4))
    attention[0, 2, 1], attention[0, 0, 0] = 0.7, 0.3
    attention[1, 1, 3] = 1
    assert frame_of_each_word(attention) == [2, 1]
    assert frame_of_each_word(np.full((1, 5, 4), 0.05)) == [2]  # ST weighs all time steps alike: the middle one
    boxes = np.array([[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0, 0.5, 0.5, 1], [0.5, 0.5, 1, 1]])
    frames = Frames(np.full((3, 20, 40, 3), 90, np.uint8), np.arange(3.0))
    picture = np.asarray(draw_words(frames, ["a", "dog"], attention, np.broadcast_to(boxes, (3, 4, 4))))
    second_row = picture[picture.shape[0] // 2 :]
    assert (second_row[..., 0].astype(int) - second_row[..., 2] > 60).any(), "no location glows"
    with pytest.raises(WatchwordError, match="do not fit"):
        draw_words(frames, ["a"], attention, np.broadcast_to(boxes, (3, 4, 4)))


def test_sharpness_and_ranking_by_hand() -> None:
    found = sharpness(np.array([[0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]))
    assert found.tolist() == [pytest.approx([0.5, 2, 4]), pytest.approx([1, 1, 4])]
    assert ranking(np.array([[1.0, 2.0, 3.0, 2.5], [4.0, 3.0, 2.0, 1.0]])) == pytest.approx((2 / 6, (0.8 - 1) / 2))


def test_wording_counts_words_by_what_they_are() -> None:
    said = ["a man is playing a guitar", "a man is singing", "a small dog is running"]
    found = pos_stats_of([caption.split() for caption in said])
    assert found.shares == {"verb": 3 / 8, "noun": 4 / 8, "adjective": 1 / 8}
    assert found.different_words == 7
    # man (2) and dog, guitar, playing, running (alphabet) are the five commonest
    assert found.frequent == (("singing", "verb", 1),)
    assert found.among_frequent == {"verb": 1, "noun": 0}


def test_of_frequent_words_the_first_five_are_left_out_and_the_next_twenty_verbs_and_nouns_are_shown() -> None:
    nouns = "man woman dog cat car horse boy girl guitar piano ball road field kitchen knife".split()
    verbs = "playing singing running eating cooking driving riding dancing walking talking cutting".split()
    times = zip([*nouns, *verbs], range(40, 0, -1), strict=False)  # each a time less than the one before
    said = [["a", "small", word] if word in nouns else ["is", word] for word, count in times for _ in range(count)]
    found = pos_stats_of(said)
    assert [word for word, _, _ in found.frequent] == [*nouns[4:], *verbs[:9]]  # `small` is the first of all
    assert found.among_frequent == {"verb": 9, "noun": 11}


def test_a_deciding_word_is_right_wrong_or_missing(shapes: Path) -> None:
    truth = read_truth(shapes / "truth.jsonl")
    clips = [clip for clip in read_annotations(shapes / "captions.jsonl") if truth[clip.video].facts.depends_on_order]
    right = [Hypothesis(clip.video, tuple(clip.captions[0].split()), 0.0) for clip in clips]
    assert decisions(right, truth).right == 1.0
    video = next(video for video in draw_videos(ShapesConfig(count=40)) if video.truth.facts.direction == "left")
    said = [
        [Hypothesis(video.video, tuple(text.split()), 0.0)]
        for text in ("it moves to the left", "it moves to the right", "it moves up", "it moves")
    ]
    found = [decisions(one, truth) for one in said]
    assert [one.right for one in found] == [1, 0, 0, 0]
    assert [one.of_two for one in found] == [1, 0, None, None]


def test_from_videos_to_figures_by_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    config = ShapesConfig(count=20, actions=("moves", "appears"))
    videos: list[str] = []

    def keep(video: object) -> None:
        if not videos:
            write_video(data / "videos" / f"{video.video}.mp4", video, 8)  # type: ignore[attr-defined, arg-type]
            videos.append(video.video)  # type: ignore[attr-defined]

    write_shapes(data, config, ("appearance_grid", "regions"), keep)
    rows = [json.loads(line) for line in (data / "captions.jsonl").read_text().splitlines()]
    lines = (json.dumps(row | {"category": number % 3}) for number, row in enumerate(rows))
    (data / "captions.jsonl").write_text("\n".join(lines))
    words = ["features", "categories", data / "captions.jsonl", "--store", data / "store"]
    assert "3 categories" in CliRunner().invoke(app, [str(word) for word in words]).output
    recipe = Recipe.read(
        {
            "data": {
                "captions": data / "captions.jsonl",
                "store": data / "store",
                "min_count": 1,
                "max_time_steps": 4,
                "streams": ["appearance_grid", "regions", "category"],
            },
            "model": SMALL,
            "phases": [{"epochs": 1, "loss": {"name": "ranked"}, "optimizer": "rmsprop"}],
        },
        "test",
    )
    trained = loop.train(recipe, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[0])["ranked"] > 0
    result = evaluate([trained], "test", loop.Search(1), ("BLEU",))
    (tmp_path / "run" / "predictions-test.json").write_text(result.predictions_json())
    for words in (
        ["research", "pos-stats", tmp_path / "run", "--output", tmp_path / "words.png"],
        ["research", "temporal-order", tmp_path / "run"],
        ["research", "branches", tmp_path / "run", "--split", "test"],
        ["research", "heatmap", tmp_path / "run", videos[0], "--output", tmp_path / "heat.png", "--beam", "1"],
    ):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        assert "…" not in done.output, "a table is cut off"
    assert (tmp_path / "words.png").stat().st_size > 1000
    assert (tmp_path / "heat.png").stat().st_size > 1000

    stored = Captioner.caption_stored

    def with_kinds(self: Captioner, *arguments: object) -> list[Hypothesis]:
        """Heads as of a model with several attentions over a stream."""
        found = stored(self, *arguments)  # type: ignore[arg-type]
        return [
            replace(one, attention={f"local:{name}": one.attention[name] for name in one.attention}) for one in found
        ]

    monkeypatch.setattr(Captioner, "caption_stored", with_kinds)
    words = [
        "research",
        "heatmap",
        tmp_path / "run",
        videos[0],
        "--output",
        tmp_path / "head.png",
        "--head",
        "local:regions",
    ]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "head.png").stat().st_size > 1000
