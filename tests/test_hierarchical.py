"""Hierarchical attention: what it chooses, what it does without objects, and the figures of its paper."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from tests.conftest import noise_stream
from tests.test_training import recipe
from watchword.captioning.captioner import Captioner
from watchword.cli.main import app
from watchword.data.annotations import read_annotations
from watchword.data.dataset import pad_streams
from watchword.decoding import rescore, teacher_force
from watchword.errors import WatchwordError
from watchword.features.specs import ImageSpec
from watchword.models import build_model
from watchword.models.hierarchical import CHOSEN, Hierarchical
from watchword.research.analysis.drawn_videos import at_times, shares
from watchword.research.analysis.experiments import read_axis
from watchword.research.analysis.word_stats import frequencies, measure
from watchword.research.drawn_data import write_video
from watchword.research.papers.hierarchical_figure import within_frames
from watchword.research.shapes import ShapesConfig, draw_video, streams_of
from watchword.tensors import EOS, Stream
from watchword.text.vocabulary import count_words
from watchword.training import loop
from watchword.training.evaluation import Search, evaluate
from watchword.training.run import Run
from watchword.video import Spaced

WIDTHS = {"appearance": 6, "motion": 4, "regions": 5}
CAPTIONS = torch.tensor([[[4, 5, EOS], [6, 7, EOS]], [[5, 5, EOS], [8, 4, EOS]]])


def model(variant: str = "ha", widths: dict[str, int] = WIDTHS, **settings: object) -> Hierarchical:
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "embedding_size": 6, "attention_size": 7, **settings}
    built = build_model({"name": "hierarchical", "variant": variant, **sizes}, widths, 12)
    assert isinstance(built, Hierarchical)
    return built.eval()


def streams() -> dict[str, Stream]:
    return {
        "appearance": noise_stream([4, 3], locations=1, width=6, seed=1),
        "motion": noise_stream([2, 2], locations=1, width=4, seed=2),
        "regions": noise_stream([3, 2], locations=3, width=5, seed=3),
    }


def test_objects_are_chosen_by_what_was_seen_before() -> None:
    """Eq. 1 and 2, frame by frame, with plain matrices."""
    ha, seen = model(), streams()["regions"]
    alpha = ha.object_attention({"regions": seen})
    choose, gates = ha.choose, ha.object_cell.gates
    hidden, cell = torch.zeros(8), torch.zeros(8)
    for frame in range(3):
        objects = seen.values[0, frame]  # (3, 5)
        energy = (choose.from_query(hidden) + choose.from_value(objects)).tanh() @ choose.energy.weight[0]
        weights = energy.softmax(0)
        torch.testing.assert_close(alpha[0, frame], weights)
        into, forget, new, out = gates(torch.cat([weights @ objects, hidden])).chunk(4)
        cell = forget.sigmoid() * cell + into.sigmoid() * new.tanh()
        hidden = out.sigmoid() * cell.tanh()


def test_attention_to_regions_is_that_to_frames_times_that_within_them() -> None:
    ha, seen = model(), streams()
    joint = teacher_force(ha, seen, CAPTIONS, keep_attention=True).attention["regions"]  # (B, S, T, F, N)
    alpha = ha.object_attention(seen)
    frames = joint.sum(-1, keepdim=True)
    torch.testing.assert_close(joint, frames * alpha[:, None, None])
    assert frames[0, 0, 1].std() > 0, "the words choose among frames"


class Widths(torch.nn.Module):
    """In the place of dropout: notes the widths of what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        self.seen.append(values.shape[-1])
        return values


def test_frames_are_asked_for_by_the_hidden_state_and_not_by_the_cell() -> None:
    ha = model()
    memory, state = ha.encode(streams())
    words = torch.tensor([[4], [5]])
    plain = ha.step(words, memory, state).attention
    by_cell = ha.step(words, memory, state | {"cell": state["cell"] + 1}).attention
    by_hidden = ha.step(words, memory, state | {"hidden": state["hidden"] + 1}).attention
    for name, weights in plain.items():
        assert torch.equal(weights, by_cell[name])
        assert not torch.allclose(weights, by_hidden[name])


def test_dropout_is_at_the_input_and_the_output_of_both_lstms() -> None:
    ha = model()
    ha.dropout = Widths()  # type: ignore[assignment]
    memory, state = ha.encode(streams())
    frames, hidden = streams()[ha.object_stream].mask.shape[1], ha.config.hidden_size
    objects = ha.object_cell.gates.in_features - hidden
    assert ha.dropout.seen == [objects] * frames + [hidden]  # LSTM_R
    ha.dropout.seen.clear()
    ha.step(torch.tensor([[4], [5]]), memory, state)
    assert ha.dropout.seen == [ha.cell.gates.in_features - hidden, hidden]  # LSTM_F


def test_a_frame_without_objects_is_passed_over() -> None:
    ha, seen = model(), streams()
    gapped = noise_stream([3, 2], locations=3, width=5, seed=3)
    gapped.mask[0, 1] = False
    alpha = ha.object_attention({"regions": gapped})
    assert alpha[0, 1].tolist() == [0, 0, 0]
    without = Stream(*(part[:1, [0, 2]] for part in vars(gapped).values()))
    torch.testing.assert_close(alpha[0, 2], ha.object_attention({"regions": without})[0, 1])
    attention = teacher_force(ha, {**seen, "regions": gapped}, CAPTIONS, keep_attention=True).attention["regions"]
    torch.testing.assert_close(attention.sum((-2, -1)), torch.ones(2, 2, 3))


@pytest.mark.parametrize(
    ("variant", "heard"),
    [
        ("ha", ["appearance", "motion", CHOSEN]),
        ("ta_b1", ["appearance", "motion"]),
        ("ta_b2", ["appearance", "motion", "regions"]),
        ("na", ["appearance", "motion", "regions"]),
    ],
)
def test_each_variant_hears_what_table_1_says(variant: str, heard: list[str]) -> None:
    assert list(model(variant).sources) == heard


def test_without_attention_every_frame_counts_the_same() -> None:
    attention = teacher_force(model("na"), streams(), CAPTIONS, keep_attention=True).attention
    assert attention["regions"][0, 0, 0].flatten().tolist() == pytest.approx([1 / 9] * 9)


def test_without_regions_the_locations_of_the_first_stream_are_the_objects() -> None:
    grid = {"appearance": noise_stream([3, 2], locations=4, width=6), "motion": streams()["motion"]}
    ha = model(widths={"appearance": 6, "motion": 4})
    assert ha.sources == {"appearance": "appearance", "motion": "motion", CHOSEN: "appearance"}
    assert ha.object_attention(grid)[0, 0].std() > 0
    pooled = model(widths={"appearance": 6}).object_attention({"appearance": streams()["appearance"]})
    assert pooled[0].tolist() == [[1.0]] * 4  # the whole picture is the one object


def test_ta_b1_needs_a_stream_besides_the_objects() -> None:
    with pytest.raises(WatchwordError, match="ta_b1 does not attend to regions"):
        model("ta_b1", {"regions": 5})
    with pytest.raises(WatchwordError, match="does not choose objects"):
        model("ta_b2").object_attention(streams())


def test_forty_frames_eight_apart_wider_in_long_videos_fewer_in_short_ones() -> None:
    plan = Spaced(40, 8)
    videos = {frames: SimpleNamespace(times=np.arange(frames) / 25.0) for frames in (1, 80, 320, 321, 4000)}
    steps = {frames: (plan.times(video) * 25).round().astype(int) for frames, video in videos.items()}  # type: ignore[arg-type]
    assert steps[1].tolist() == [0]
    assert steps[80].tolist() == list(range(0, 80, 8))
    assert steps[320].tolist() == list(range(0, 320, 8))
    assert len(steps[321]) == 40
    assert steps[4000].tolist() == list(range(0, 4000, 100))
    spec = ImageSpec.read({"time_steps": 40, "stride": 8}, "test")
    assert spec.instants(videos[80]).tolist() == plan.times(videos[80]).tolist()  # type: ignore[arg-type]
    assert "stride" not in ImageSpec.read({}, "test").model_dump(exclude_none=True), "old stores keep their keys"


# --- words -----------------------------------------------------------------------------------------------------------


def test_the_vocabulary_is_counted_by_hand() -> None:
    training = count_words({"a": ["a man runs"], "b": ["a man", "a dog"], "c": ["a man"], "d": ["a zebra"]})
    references = count_words({"x": ["a dog", "the dog"], "y": ["a zebra", "a man", "a man"]})
    found = measure({"x": ["a", "dog"], "y": ["a", "man"]}, references, training, rare=0.25)
    assert (found.captions, found.words, found.mean_length) == (2, 3, 2.0)
    assert (found.rare_words, found.rare_share) == (1, 0.25)  # dog; runs and zebra are rare too but not said
    assert found.rare_recall == 1.0  # only "dog" is rare and agreed upon
    assert found.spread == pytest.approx(1.5)  # 1/2, 1/4, 1/4
    assert measure({"x": ["a"], "y": ["a"]}, references, training, rare=0.25).rare_recall == 0.0


def test_the_bias_of_a_corpus_is_counted_by_hand() -> None:
    counts = count_words({"a": ["a dog runs", "a dog"], "b": ["a cat"]})
    found = frequencies(counts, min_count=1)
    assert (found["words"], found["tokens"], found["videos"]) == (4, 7, 2)
    assert found["shares"][-1] == {"of_words": 0.5, "words": 2, "of_tokens": 5 / 7}  # a, dog
    assert found["bars"][0] == {"rank": 1, "word": "a", "count": 3, "videos": 2}
    assert frequencies(counts, min_count=2)["words"] == 2


# --- pictures --------------------------------------------------------------------------------------------------------


def test_attention_of_a_video_becomes_a_distribution_within_each_frame() -> None:
    looked = np.array([[[0.1, 0.3], [0.0, 0.0]], [[0.3, 0.1], [0.0, 0.0]]])  # two words, two frames, two locations
    assert within_frames(looked).tolist() == [[0.5, 0.5], [0.0, 0.0]]


def test_attention_on_the_subject_alone_is_a_share_of_one() -> None:
    truth = draw_video(ShapesConfig(distractors=3, outside="rest", actions=("moves",)), 0).truth
    looked = np.zeros((2, 16, 8))
    looked[:, :, truth.subject] = 1 / 16
    happens = (truth.event[1] - truth.event[0]) / 16
    assert shares(looked, truth) == pytest.approx(
        {"frames": 1.0, "event": 1.0, "words": 1.0, "objects": 1.0, "during": happens}
    )
    even = np.broadcast_to(truth.visible / truth.visible.sum(), looked.shape)
    assert shares(even, truth)["frames"] == pytest.approx(1 / 8)
    assert shares(even, truth)["objects"] == pytest.approx(1 / 4)


def test_the_truth_of_frames_with_regions_is_that_of_their_times(tmp_path: Path) -> None:
    """Regions of one of three frames: frames 1, 4, 7, 10, 13 of 16."""
    video = draw_video(ShapesConfig(distractors=3, outside="hidden", actions=("moves",)), 0)
    streams = {
        name: pad_streams([arrays]) for name, arrays in streams_of(video, ("scene", "regions"), regions_every=3).items()
    }
    assert streams["regions"].times[0].tolist() == pytest.approx([frame / 8 for frame in (1, 4, 7, 10, 13)])
    found = at_times(video.truth, streams, "regions")
    np.testing.assert_allclose(streams["regions"].boxes[0], found.boxes, atol=1e-6)
    assert (found.visible == video.truth.visible[1::3]).all()
    assert (found.visible != video.truth.visible[:5]).any(), "another choice of frames would be seen"
    start, end = video.truth.event
    assert found.event[1] - found.event[0] == sum(start <= frame < end for frame in (1, 4, 7, 10, 13))
    assert start <= 3 * found.event[0] + 1 < end
    whole = {"regions": pad_streams([streams_of(video, ("regions",))["regions"]])}
    assert at_times(video.truth, whole, "regions") is video.truth


# --- commands --------------------------------------------------------------------------------------------------------


def run_command(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, f"{done.output}\n{done.exception}"
    return done.output


@pytest.fixture(scope="module")
def trained(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    settings = {"name": "hierarchical", "hidden_size": 16, "embedding_size": 8, "attention_size": 8}
    data = recipe(shapes).data.model_dump() | {"streams": ("appearance", "regions")}
    run = loop.train(recipe(shapes, model=settings, data=data), tmp_path_factory.mktemp("runs") / "run")
    result = evaluate([run], "test", Search(beam=1), ("CIDEr",))
    (run.folder / "predictions-test.json").write_text(result.predictions_json())
    (run.folder / "scores-test.json").write_text(result.scores_json())
    return run


def test_regions_are_drawn_on_the_video_and_written_as_data(trained: Run, tmp_path: Path) -> None:
    video = draw_video(ShapesConfig(count=40), 3)
    write_video(tmp_path / "video.mp4", video, 8.0)
    run_command(
        "research",
        "regions",
        trained.folder,
        video.video,
        "--videos",
        tmp_path / "video.mp4",
        "--output",
        tmp_path / "out",
    )
    found = json.loads((tmp_path / "out" / f"{video.video}.json").read_text())
    assert len(found["frames"]) == 16
    assert sum(found["frames"][5]["weights"]) == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(found["frames"][5]["boxes"], video.truth.boxes[5], atol=1e-3)
    assert Image.open(tmp_path / "out" / f"{video.video}.png").width > 6 * 160


def test_pointing_does_not_count_frames_that_are_not_looked_at() -> None:
    truth = draw_video(ShapesConfig(count=40), 3).truth
    looked = np.zeros((2, 16, 8))
    frame = int(np.flatnonzero(truth.visible[:, truth.subject])[0])
    looked[:, frame, truth.subject], looked[:, frame, truth.subject - 1] = 0.75, 0.25
    assert shares(looked, truth)["frames"] == pytest.approx(0.75)


def test_a_captioner_follows_peoples_captions_word_by_word(trained: Run, shapes: Path) -> None:
    captioner = Captioner.load(trained.folder)
    clips = read_annotations(shapes / "captions.jsonl")[:2]
    found = captioner.teacher_force(clips)
    known = [caption for clip in clips for caption in clip.captions]
    assert [caption.text for caption in found] == [
        " ".join(word if word in captioner.vocabulary.words else "<unk>" for word in text.split()) for text in known
    ]
    for caption in found:
        assert caption.attention["regions"].shape[0] == len(caption.words)
        np.testing.assert_allclose(caption.attention["regions"].sum((1, 2)), 1, atol=1e-5)
    said = torch.tensor([[[*captioner.vocabulary.encode(found[0].words), EOS]]])
    expected = rescore(captioner.model, captioner.features.read([clips[0].video]), said)
    assert found[0].score == pytest.approx(expected.item(), rel=1e-4)


def test_grounding_and_vocabulary_of_runs(trained: Run, shapes: Path) -> None:
    found = json.loads(
        run_command("research", "grounding", trained.folder, "--truth", shapes / "truth.jsonl", "--json")
    )
    assert found["chance"]["frames"] == pytest.approx(1 / 8, abs=0.02)
    assert 0 < found["run"]["frames"] < 1
    spoken = json.loads(run_command("research", "vocab-stats", trained.folder, "--rare", 0.2, "--json"))
    assert spoken["a person"]["words"] > spoken["run"]["words"] > 0
    assert spoken["run"]["CIDEr"] >= 0
    assert "rare: at most 2.0% of videos" in run_command("research", "vocab-stats", trained.folder)


def test_a_sweep_is_a_table_and_a_picture_and_does_nothing_twice(shapes: Path, tmp_path: Path) -> None:
    toml = tmp_path / "small.toml"
    toml.write_text(f"""
        [data]
        captions = "{shapes / "captions.jsonl"}"
        store = "{shapes / "store"}"
        [model]
        name = "mean_pool"
        hidden_size = 8
        [[phases]]
        epochs = 1
        loss = {{ name = "information" }}
    """)
    words = [
        "research",
        "sweep",
        toml,
        "--over",
        "phases.0.loss.trade_off=0.3,0.5",
        "--over",
        "phases.0.loss.gamma=1,2",
        "--beam",
        1,
        "--output",
        tmp_path / "sweep",
    ]
    assert "trade_off" in run_command(*words)
    rows = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert [row["settings"] for row in rows][1] == {"phases.0.loss.trade_off": "0.3", "phases.0.loss.gamma": "2"}
    assert Image.open(tmp_path / "sweep" / "sweep.png").width > 200
    weights = tmp_path / "sweep" / "trade_off=0.5,gamma=2" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    (tmp_path / "sweep" / "trade_off=0.3,gamma=1" / "scores-val.json").unlink()  # cut off before it was scored
    run_command(*words)
    assert weights.stat().st_mtime_ns == before
    assert (tmp_path / "sweep" / "trade_off=0.3,gamma=1" / "scores-val.json").exists()
    changed = CliRunner().invoke(app, [str(word) for word in [*words, "seed=3"]])
    assert isinstance(changed.exception, WatchwordError)
    assert "another recipe" in str(changed.exception)


def test_a_sweep_is_never_scored_on_test() -> None:
    done = CliRunner().invoke(app, ["research", "sweep", "x.toml", "--over", "seed=1,2", "--split", "test"])
    assert isinstance(done.exception, WatchwordError)
    with pytest.raises(WatchwordError, match="expected key=value"):
        read_axis("gamma")


def test_word_frequencies_of_several_splits_are_counted_together(shapes: Path) -> None:
    counted = {
        split: json.loads(run_command("research", "word-frequency", shapes, "--split", split, "--json"))["tokens"]
        for split in ("train", "val", "train,val")
    }
    assert counted["train,val"] == counted["train"] + counted["val"]


def test_word_frequencies_are_drawn(shapes: Path, tmp_path: Path) -> None:
    assert "videos" in run_command("research", "word-frequency", shapes, "--output", tmp_path / "words.png")
    assert min(Image.open(tmp_path / "words.png").size) > 300
