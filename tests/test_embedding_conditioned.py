"""The embedding-conditioned captioner: sentence embeddings predicted by kernel regression, captions from them."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import noise_stream
from watchword.captioning.captioner import Captioner
from watchword.decoding import teacher_force
from watchword.features.store import Store
from watchword.layers.kernel_regression import KernelRegression, pooled
from watchword.models import build_model
from watchword.tensors import EOS, PAD, Stream
from watchword.types import StreamArrays

RECIPES = Path(__file__).parents[1] / "recipes"
SMALL = {
    "name": "embedding_conditioned",
    "hidden_size": 16,
    "embedding_size": 8,
    "sentence_embedding_size": 5,
    "examples": 7,
}
CAPTIONS = torch.tensor([[[5, 6, EOS]], [[7, EOS, PAD]], [[4, 9, EOS]]])


def fitted(penalty: float, gamma: float = 1.0) -> tuple[KernelRegression, dict[str, torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    vectors = {"appearance": torch.randn(9, 12, generator=generator), "audio": torch.randn(9, 6, generator=generator)}
    known = torch.randn(9, 4, generator=generator)
    regression = KernelRegression({"appearance": 6, "audio": 3}, 9, 4, gamma)
    regression.fit(vectors, known, torch.full((9,), penalty))
    return regression, vectors, known


def test_without_a_penalty_the_targets_of_the_examples_are_predicted() -> None:
    regression, vectors, known = fitted(penalty=1e-7)
    torch.testing.assert_close(regression.output(regression.kernel(vectors)), known, rtol=1e-3, atol=1e-3)


def test_a_larger_penalty_keeps_predictions_nearer_to_the_mean() -> None:
    far = []
    for penalty in (0.01, 1.0, 100.0):
        regression, vectors, known = fitted(penalty)
        far.append((regression.output(regression.kernel(vectors)) - known.mean(0)).norm().item())
    assert far[0] > far[1] > far[2]
    assert far[2] < 0.1 * known.norm().item()


def test_the_kernel_is_as_worked_by_hand() -> None:
    regression, vectors, known = fitted(penalty=1.0, gamma=0.5)
    with torch.no_grad():
        regression.weight["audio"].fill_(0.25)
    by_hand = torch.zeros(9, 9)
    for name, share in (("appearance", 1.0), ("audio", 0.25)):
        values = vectors[name]
        spread = values.std(0) + 1e-3
        standard = (values - values.mean(0)) / spread
        slopes = (standard.T @ (known - known.mean(0))) / standard.square().sum(0).unsqueeze(-1)  # of lines
        explained = (slopes.unsqueeze(0) * standard.unsqueeze(-1)).square().sum((0, 2))  # by each number alone
        standard *= explained / explained.mean()
        standard /= standard.norm(dim=1, keepdim=True)
        by_hand += share * (-0.5 * torch.cdist(standard, standard) ** 2).exp()
    torch.testing.assert_close(regression.kernel(vectors), by_hand, rtol=1e-4, atol=1e-4)


def test_videos_without_sound_tell_nothing_of_how_sound_differs() -> None:
    generator = torch.Generator().manual_seed(3)
    vectors = {"appearance": torch.randn(12, 8, generator=generator), "audio": torch.randn(12, 6, generator=generator)}
    known = torch.randn(12, 4, generator=generator)
    vectors["audio"][8:] = 0
    regression, of_audio = KernelRegression({"appearance": 4, "audio": 3}, 12, 4), KernelRegression({"audio": 3}, 8, 4)
    regression.fit(vectors, known, torch.ones(12))
    of_audio.fit({"audio": vectors["audio"][:8]}, known[:8], torch.ones(8))
    torch.testing.assert_close(regression.mean["audio"], of_audio.mean["audio"])
    torch.testing.assert_close(regression.scale["audio"], of_audio.scale["audio"])
    assert regression.output(regression.kernel(vectors)).isfinite().all()


def test_a_stream_that_no_video_has_changes_nothing() -> None:
    generator = torch.Generator().manual_seed(3)
    vectors, known = {"appearance": torch.randn(12, 8, generator=generator)}, torch.randn(12, 4, generator=generator)
    alone, silent = (
        KernelRegression({"appearance": 4}, 12, 4),
        KernelRegression({"appearance": 4, "audio": 3}, 12, 4),
    )
    for regression in (alone, silent):
        regression.fit(vectors, known, torch.full((12,), 1e-7))
        assert regression.output(regression.kernel(vectors)).allclose(known, atol=1e-3)
        vectors = vectors | {"audio": torch.zeros(12, 6)}


def test_few_directions_are_those_in_which_examples_differ() -> None:
    generator = torch.Generator().manual_seed(2)
    vectors = torch.randn(40, 2, generator=generator) @ torch.randn(2, 12, generator=generator)  # two, and hardly more
    vectors += 1e-3 * torch.randn(40, 12, generator=generator)
    alike = []
    for rank in (12, 2, 1):
        regression = KernelRegression({"appearance": 6}, 40, 4, rank=rank)
        regression.fit({"appearance": vectors}, torch.zeros(40, 4), torch.ones(40))
        alike.append(regression.kernel({"appearance": vectors}))
    torch.testing.assert_close(alike[1], alike[0], rtol=0.02, atol=0.02)
    assert (alike[2] - alike[0]).abs().max() > 0.2


def test_mean_and_largest_are_of_what_is_there() -> None:
    values = torch.tensor([[[[1.0, -5.0]], [[3.0, -7.0]], [[0.0, 0.0]]]])
    mask = torch.tensor([[[True], [True], [False]]])
    stream = Stream(values, mask, torch.zeros(1, 3), torch.zeros(1, 3, 1, 4))
    assert pooled(stream).tolist() == [[2.0, -6.0, 3.0, -5.0]]


def test_a_given_embedding_is_decoded_as_a_predicted_one() -> None:
    """The decoder is trained alone: joined to the regression it must generate the same from the same embedding."""
    settings = SMALL
    whole = build_model(settings, {"appearance": 6}, 14).eval()
    half = build_model(settings, {"meaning": 5}, 14).eval()
    half.load_state_dict({name: one for name, one in whole.state_dict().items() if not name.startswith("regression.")})
    seen = {"appearance": noise_stream([4, 2, 3])}
    predicted = whole.sentence_embedding(seen)[:, None, None]  # type: ignore[operator]
    real = torch.ones(3, 1, 1, dtype=torch.bool)
    given = {"meaning": Stream(predicted, real, torch.zeros(3, 1), torch.zeros(3, 1, 1, 4))}
    one, other = teacher_force(whole, seen, CAPTIONS), teacher_force(half, given, CAPTIONS)
    torch.testing.assert_close(one.outputs, other.outputs)


def test_checkpoints_with_the_old_names_of_tensors_load() -> None:
    model = build_model(SMALL | {"attended_streams": ["appearance"]}, {"appearance": 6}, 14)
    old = {
        "regression.mean": "guess.centre",
        "regression.scale": "guess.spread",
        "regression.weight": "guess.share",
        "regression.output": "guess.known",
        "regression": "guess",
        "project_stream": "see",
    }
    tensors = {}
    for name, tensor in model.state_dict().items():
        new = next((new for new in old if name.startswith(f"{new}.")), None)
        tensors[name.replace(new, old[new], 1) if new else name] = torch.rand_like(tensor)
    assert "guess.known.weight" in tensors
    model.load_state_dict(tensors)
    torch.testing.assert_close(model.state_dict()["regression.output.weight"], tensors["guess.known.weight"])
    torch.testing.assert_close(model.state_dict()["regression.mean.appearance"], tensors["guess.centre.appearance"])


def test_words_look_at_streams_that_are_named() -> None:
    settings = SMALL
    torch.manual_seed(0)
    model = build_model(settings | {"attended_streams": ["appearance"]}, {"appearance": 6, "audio": 6}, 14).eval()
    seen = {"appearance": noise_stream([4, 2, 3]), "audio": noise_stream([2, 2, 1])}
    with torch.no_grad():
        model.regression.output.weight.zero_()  # type: ignore[union-attr]  # the same prediction for all videos
    attention = teacher_force(model, seen, CAPTIONS, keep_attention=True).attention
    assert list(attention) == ["appearance"]
    weights = attention["appearance"][:, 0].sum(-1)  # (B, T, F)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 3))
    assert not weights[1, :, 2:].any()
    moved = {name: one if name == "audio" else noise_stream([4, 2, 3], seed=9) for name, one in seen.items()}
    deaf = {name: one if name == "appearance" else noise_stream([2, 2, 1], seed=9) for name, one in seen.items()}
    before, after, still = (teacher_force(model, streams, CAPTIONS).outputs for streams in (seen, moved, deaf))
    assert (after - before).abs().max() > 1e-3
    torch.testing.assert_close(still, before)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Videos of four kinds: features, captions, and embeddings that separate the kinds."""
    folder = tmp_path_factory.mktemp("embeddings")
    random = np.random.default_rng(0)
    kinds = ["a dog runs fast", "a man plays guitar", "a car drives away", "a cook cuts onions"]
    features, embeddings = random.normal(size=(4, 10)), random.normal(size=(4, 384)) / 20
    clips = [(f"video{number}", number % 4, "val" if number % 5 == 0 else "train") for number in range(60)]
    others = [(f"other{number}", number % 4, "train") for number in range(24)]
    store = Store(folder / "features")
    for video, kind, _ in [*clips, *others[:4]]:  # four of the others have features
        values = (features[kind] + 0.5 * random.normal(size=(3, 10)))[:, None].astype(np.float16)
        boxes = np.array([[0.0, 0, 1, 1]])
        store.write(video, "appearance", StreamArrays(values, np.arange(3.0), boxes), {"made": "here"})
    for path, videos in (("msrvtt/clips", clips), ("msrvtt/captions", []), ("msvd/captions", others)):
        rows = [{"video": video, "split": split, "captions": [kinds[kind]] * 4} for video, kind, split in videos]
        (folder / "data" / path).parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(folder / "data" / f"{path}.jsonl.gz", "wt") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
    (folder / "embeddings").mkdir()
    for name, videos in (("clips", clips), ("videos", others)):  # instead of a sentence encoder
        rows_of = [embeddings[kind] + 0.005 * random.normal(size=(2, 384)) for _, kind, _ in videos]
        np.save(folder / "embeddings" / f"{name}.npy", np.array(rows_of, np.float32))
    run("captioner_embeddings.py", folder / "data", folder / "embeddings", f"appearance={folder / 'features'}")
    return folder


def run(script: str, *words: Any) -> str:
    command = [sys.executable, str(RECIPES / script), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_embeddings_of_videos_without_features_have_the_errors_of_predictions(made: Path) -> None:
    store = Store(made / "embeddings")
    predicted = np.stack(
        [store.read(f"video{number}", "sentence_embedding").values[0, 0] for number in range(60)]
    ).astype(float)
    halves = [f"other{number}.{half}" for half in (0, 1) for number in range(24)]
    drawn = np.stack([store.read(half, "sentence_embedding").values[:, 0] for half in halves]).astype(float)
    assert predicted.shape == (60, 384)
    assert drawn.shape == (48, 8, 384)
    assert 0.6 < np.square(drawn).mean() / np.square(predicted).mean() < 1.5
    kinds = np.stack([predicted[number::4].mean(0) for number in range(4)])
    nearest = np.square(drawn[:, :, None] - kinds).sum(-1).argmin(-1)  # (halves, draws)
    assert (nearest == np.arange(48)[:, None] % 4).mean() > 0.9


def test_made_embeddings_correlate_with_other_captions_as_predictions_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever noise few captions have; and their covariance is that of predictions."""
    monkeypatch.syspath_prepend(str(RECIPES))
    from captioner_embeddings import errors  # type: ignore[import-not-found]

    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    count, size = 20_000, 4
    truth, turned, wrong = noise(count, size), noise(size, size), noise(size, size) + 3 * torch.eye(size)
    halves = truth.unsqueeze(1) + 0.4 * noise(count, 2, size)
    predicted = truth @ turned + noise(count, size) @ wrong
    follows, misses = errors(halves, predicted)
    torch.testing.assert_close(follows, turned, atol=0.1, rtol=0)
    made = halves[:, 0] @ follows + noise(count, size) @ misses
    torch.testing.assert_close(made.T @ halves[:, 1] / count, predicted.T @ halves[:, 1] / count, atol=0.3, rtol=0)
    torch.testing.assert_close(made.T @ made / count, predicted.T @ predicted / count, atol=0.3, rtol=0)


def test_half_of_the_draws_of_a_video_with_features_are_its_prediction(made: Path) -> None:
    store = Store(made / "embeddings")
    seen, unseen = (store.read(name, "sentence_embedding").values[:, 0] for name in ("other1.0", "other9.0"))
    assert (seen[:4] == seen[0]).all()
    assert (seen[0] == store.read("other1.1", "sentence_embedding").values[0, 0]).all()
    assert len(np.unique(seen[4:], axis=0)) == 4
    assert len(np.unique(unseen, axis=0)) == 8


def test_no_caption_is_part_of_the_embedding_that_it_is_learned_with(made: Path) -> None:
    with gzip.open(made / "embeddings" / "captions.jsonl.gz", "rt") as lines:
        videos = {video["video"]: video for video in map(json.loads, lines)}
    with gzip.open(made / "data" / "msvd" / "captions.jsonl.gz", "rt") as lines:
        for video in map(json.loads, lines):
            halves = [videos[f"{video['video']}.{half}"]["captions"] for half in (0, 1)]
            assert halves == [video["captions"][1::2], video["captions"][::2]]  # .0 has the embedding of the even ones


def test_some_training_clips_are_held_out_for_validation(made: Path) -> None:
    with gzip.open(made / "data" / "msrvtt" / "clips.jsonl.gz", "rt") as lines:
        before = {clip["video"]: clip["split"] for clip in map(json.loads, lines)}
    with gzip.open(made / "embeddings" / "captions.jsonl.gz", "rt") as lines:
        after = {clip["video"]: clip["split"] for clip in map(json.loads, lines)}
    moved = [video for video, split in before.items() if after[video] != split]
    assert len(moved) == 8  # every sixth of 48
    assert {(before[video], after[video]) for video in moved} == {("train", "val")}


def test_a_video_without_features_has_an_empty_stream(made: Path) -> None:
    store = Store(made / "embeddings")
    assert store.shape("video0", "appearance") == (3, 1, 10)
    assert store.shape("other9.1", "appearance") == (0, 1, 10)


def test_two_halves_of_a_captioner_are_trained_apart_and_joined(made: Path) -> None:
    import watchword

    watchword.train(
        RECIPES / "captioner_embedding.toml",
        f"data.captions={made / 'embeddings' / 'captions.jsonl.gz'}",
        f"data.store={made / 'embeddings'}",
        "model.hidden_size=32",
        "model.embedding_size=16",
        "model.dropout=0",
        "selection.mbr_samples=0",
        "phases=[{epochs=25,learning_rate=0.01}]",
        output=made / "decoder",
    )
    run("captioner_join.py", made / "decoder", made / "embeddings", made / "features", made / "videos")
    captioner = Captioner.load(made / "videos")
    said = [caption.text for caption in captioner.caption_stored(["video0", "video5", "video10", "video15"])]
    assert said == ["a dog runs fast", "a man plays guitar", "a car drives away", "a cook cuts onions"]
