"""Information Loss: words that tell a video from others weigh more."""

from math import log
from pathlib import Path

import pytest
import torch

from tests.conftest import ALONE, noise_stream
from tests.test_training import assert_same, recipe, weights
from watchword.errors import WatchwordError
from watchword.losses import Material, build_loss
from watchword.losses.information import Information, importances
from watchword.models import MODELS, build_model
from watchword.tensors import BOS, EOS, PAD, UNK, Batch
from watchword.text.vocabulary import SPECIALS, Vocabulary, count_words
from watchword.training import loop

VOCABULARY = Vocabulary(["a", "dog", "runs", "cat"])  # 4, 5, 6, 7
REFERENCES = {
    "v": ["A dog runs.", "a dog", "a zebra runs", "the dog chases a dog"],
    "w": ["a cat runs", "a cat"],
    "x": ["a cat"],
}
MATERIAL = Material(VOCABULARY, REFERENCES, num_words=30, max_words=5)
STREAMS = {"appearance": noise_stream([2, 3, 2])}
CAPTIONS = torch.tensor(
    [
        [[BOS, 4, 5, 6, EOS], [BOS, 4, UNK, 6, EOS]],
        [[BOS, 4, 7, 6, EOS], [BOS, 4, 7, EOS, PAD]],
        [[BOS, 4, 7, EOS, PAD], [PAD] * 5],
    ]
)
BATCH = Batch(("v", "w", "x"), STREAMS, CAPTIONS)


def information(**settings: float) -> Information:
    loss = build_loss({"name": "information", **settings}, MATERIAL)
    assert isinstance(loss, Information)
    return loss


def test_importance_is_worked_out_by_hand() -> None:
    found = importances(count_words(REFERENCES), gamma=2.0)
    assert found["v"]["dog"] == pytest.approx((3 / 4) ** 2 * log(3))  # in 3 of 4 captions of v, of 1 video in 3
    assert found["v"]["runs"] == pytest.approx((2 / 4) ** 2 * log(3 / 2))
    assert found["w"]["runs"] == pytest.approx((1 / 2) ** 2 * log(3 / 2))
    assert found["w"]["cat"] == found["x"]["cat"] == pytest.approx(log(3 / 2))
    assert [found[video]["a"] for video in "vwx"] == [0, 0, 0]  # said of all videos: no news
    assert "dog" not in found["w"]


def test_without_gamma_only_the_information_content_counts() -> None:
    found = importances(count_words(REFERENCES), gamma=0.0)
    assert found["v"]["dog"] == found["v"]["zebra"] == pytest.approx(log(3))


def test_a_word_said_twice_in_a_caption_counts_once_and_weighs_the_same_each_time() -> None:
    once = importances(count_words({**REFERENCES, "v": [*REFERENCES["v"][:3], "the dog chases"]}), gamma=2.0)
    assert once["v"]["dog"] == importances(count_words(REFERENCES), gamma=2.0)["v"]["dog"]
    loss = information()
    twice = loss.of_words(torch.tensor([5, 5]), torch.tensor([0, 0]), BATCH)
    assert twice[0] == twice[1] > 0


def test_a_batch_is_weighed_word_by_word() -> None:
    loss = information(gamma=2.0, trade_off=0.5)
    words = torch.tensor([4, 5, 6, EOS, 7, 6, 7, 5, UNK])
    rows = torch.tensor([0, 0, 0, 0, 1, 1, 2, 1, 0])
    weighed = loss.weighed(torch.full((9,), 10.0), words, rows, BATCH)
    dog, runs, cat = 9 / 16 * log(3), 1 / 4 * log(3 / 2), log(3 / 2)
    by_hand = [0, dog, runs, 0, cat, runs, cat, 0, 0]  # "a" and EOS tell nothing; nobody says "dog" of w; no UNK
    torch.testing.assert_close(weighed, torch.tensor([10 * (1 + 0.5 * value) for value in by_hand]))


def test_videos_are_known_by_name_wherever_they_stand_in_a_batch() -> None:
    other = Batch(("x", "w", "v"), STREAMS, CAPTIONS)
    found = information().of_words(torch.tensor([5, 7, 5]), torch.tensor([2, 1, 0]), other)
    torch.testing.assert_close(found, torch.tensor([9 / 16 * log(3), log(3 / 2), 0.0]))


def test_as_a_control_every_video_has_the_importances_of_another() -> None:
    words, videos = torch.tensor([5, 6, 7] * 3), torch.tensor([0] * 3 + [1] * 3 + [2] * 3)  # dog, runs, cat of each
    own = information().of_words(words, videos, BATCH).view(3, 3)
    permuted = information(permute=True).of_words(words, videos, BATCH).view(3, 3)
    assert sorted(permuted.tolist()) == sorted(own.tolist())
    assert not (permuted == own).all(1).any()


def test_the_other_video_is_drawn_and_is_the_same_in_every_run() -> None:
    """Neighbours in the captions' file are often clips of one source."""
    videos = [f"v{number}" for number in range(60)]
    material = Material(Vocabulary(videos), {video: [video] for video in videos}, num_words=60, max_words=5)
    own = torch.arange(60) + len(SPECIALS)  # each video's only word
    batch = Batch(tuple(videos), STREAMS, torch.zeros(60, 1, 1, dtype=torch.long))

    def others() -> torch.Tensor:
        loss = build_loss({"name": "information", "permute": True}, material)
        assert isinstance(loss, Information)
        found = [loss.of_words(own, torch.full((60,), video), batch) for video in range(60)]
        return torch.stack(found).argmax(1)  # whose word weighs most for each video

    assert sorted(others().tolist()) == list(range(60))
    assert (others() != torch.arange(60)).all()
    assert (others() == (torch.arange(60) + 1) % 60).sum() < 10
    assert torch.equal(others(), others())


def test_punctuation_alone_is_no_caption() -> None:
    silent = importances(count_words({**REFERENCES, "x": ["a cat", "..."]}), gamma=2.0)
    assert silent == importances(count_words(REFERENCES), gamma=2.0)


@pytest.mark.parametrize("name", MODELS)
def test_any_model_learns_by_it_and_without_lambda_it_is_cross_entropy_exactly(name: str) -> None:
    gradients = {}
    for loss in ({"name": "cross_entropy"}, {"name": "information", "trade_off": 0.0}, {"name": "information"}):
        torch.manual_seed(0)
        settings = {"name": name, "hidden_size": 8, "embedding_size": 4, **ALONE.get(name, {})}
        model = build_model(settings, {"appearance": 6}, len(VOCABULARY))
        torch.manual_seed(1)  # the same dropout
        result = build_loss(loss, MATERIAL)(model, BATCH, sampling_rate=0.3)
        result.total.backward()
        assert result.weight == 17  # words but PAD and UNK: a weight makes no word count twice
        gradients[str(loss)] = (result.total, [parameter.grad for parameter in model.parameters()])
    plain, without, whole = gradients.values()
    assert torch.equal(plain[0], without[0])
    for one, other in zip(plain[1], without[1], strict=True):
        assert one is other is None or torch.equal(one, other)
    assert whole[0] > plain[0]


def test_runs_with_cross_entropy_and_without_lambda_end_in_the_same_weights(shapes: Path, tmp_path: Path) -> None:
    phase = {"epochs": 1, "learning_rate": 0.01}
    loop.train(recipe(shapes, phases=[phase]), tmp_path / "plain")
    information = {"name": "information", "trade_off": 0.0}
    loop.train(recipe(shapes, phases=[{**phase, "loss": information}]), tmp_path / "information")
    assert_same(weights(tmp_path / "plain", "model"), weights(tmp_path / "information", "model"))


def test_captions_are_counted_once_for_all_phases() -> None:
    material = Material(VOCABULARY, REFERENCES, num_words=30, max_words=5)
    assert material.word_counts is material.word_counts


def test_nothing_of_it_is_kept_in_a_run_because_the_captions_say_it_again() -> None:
    assert not information().state_dict()


def test_a_video_without_known_captions_is_one_clear_line() -> None:
    stranger = Batch(("v", "w", "val7"), STREAMS, CAPTIONS)
    with pytest.raises(WatchwordError, match="no captions of 'val7'"):
        information().of_words(torch.tensor([4]), torch.tensor([0]), stranger)
