"""Intervals, paired tests and diversity."""

from pathlib import Path

import numpy as np
import pytest

from watchword.errors import WatchwordError
from watchword.metrics import ReferenceIndex, Scores, meteor_available
from watchword.metrics.statistics import bootstrap, compare, diversity, mean_of_ratio, resampled

NAMES = [f"v{number}" for number in range(60)]
VERBS = ["runs", "sleeps", "eats", "jumps", "sings"]
REFERENCES = {
    name: [f"a dog {VERBS[number % 5]} in the park", f"the dog {VERBS[number % 5]}"]
    for number, name in enumerate(NAMES)
}


@pytest.fixture(autouse=True)
def own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """References are indexed apart; METEOR's tables, which take half a minute, stay where they are."""
    monkeypatch.setattr("watchword.metrics.index.cache_folder", lambda *parts: tmp_path.joinpath(*parts))


def scored(right: float, metrics: tuple[str, ...] = ("BLEU", "ROUGE_L", "CIDEr")) -> Scores:
    sentences = {
        name: f"a dog {VERBS[number % 5]}" if number < right * 60 else "a cat looks at a wall now"
        for number, name in enumerate(NAMES)
    }
    return ReferenceIndex(REFERENCES).score(sentences, metrics)


def test_counting_every_video_once_gives_the_corpus_score() -> None:
    scores = scored(0.5)
    for name, values in resampled(scores, np.ones((1, 60))).items():
        assert values[0] == pytest.approx(scores.corpus[name])


def test_a_ratio_weighs_words_and_doubts_videos() -> None:
    mean, error = mean_of_ratio(np.array([6.0, 2.0, 4.0]), np.array([2.0, 1.0, 1.0]))
    assert mean == pytest.approx(3.0)  # 12 / 4
    assert error == pytest.approx((2 * 3 / 2) ** 0.5 / 4)  # residuals 0, -1, 1
    assert mean_of_ratio(np.full(9, 3.0), np.full(9, 2.0)) == (1.5, 0.0)


def test_counting_some_videos_gives_the_score_of_only_those() -> None:
    scores = scored(0.5)
    weights = np.zeros((1, 60))
    weights[0, :30] = 1
    half = {name: REFERENCES[name] for name in NAMES[:30]}
    sentences = {name: f"a dog {VERBS[number % 5]}" for number, name in enumerate(NAMES[:30])}
    expected = ReferenceIndex(half).score(sentences, ["BLEU", "ROUGE_L"])
    values = resampled(scores, weights)
    for name, value in expected.corpus.items():
        assert values[name][0] == pytest.approx(value)


def test_an_interval_holds_the_score_and_repeats_with_its_seed() -> None:
    scores = scored(0.5)
    intervals = bootstrap(scores, 500)
    for name, interval in intervals.items():
        assert interval.low < scores.corpus[name] < interval.high
    assert bootstrap(scores, 500) == intervals
    assert bootstrap(scores, 500, seed=1) != intervals
    assert all(each.high - each.low < 1e-9 for each in bootstrap(scored(1.0), 50).values() if each.high < 1.0001)


def test_a_system_does_not_differ_from_itself_and_does_from_a_far_better_one() -> None:
    same = compare(scored(0.5), scored(0.5), 200)
    assert all(each.difference == 0 and each.p_value == 1 for each in same.values())
    better = compare(scored(0.9), scored(0.3), 500)
    assert all(each.difference > 0 and each.low > 0 and each.p_value < 0.01 for each in better.values())


def test_two_systems_that_are_alike_give_a_high_p() -> None:
    ours = {name: f"a dog {VERBS[number % 5]}" if number % 2 else "a cat" for number, name in enumerate(NAMES)}
    theirs = {name: f"a dog {VERBS[number % 5]}" if number % 2 == 0 else "a cat" for number, name in enumerate(NAMES)}
    index = ReferenceIndex(REFERENCES)
    both = [index.score(sentences, ["ROUGE_L"]) for sentences in (ours, theirs)]
    assert compare(both[0], both[1], 500)["ROUGE_L"].p_value > 0.05


def test_systems_on_different_videos_are_refused() -> None:
    other = ReferenceIndex({"v0": ["a dog"]}).score({"v0": "a dog"}, ["ROUGE_L"])
    with pytest.raises(WatchwordError, match="same videos"):
        compare(scored(0.5), other)


@pytest.mark.slow
@pytest.mark.skipif(not meteor_available(), reason="METEOR's tables are not here")
def test_corpus_meteor_is_resampled_from_summed_statistics() -> None:
    scores = scored(0.5, ("METEOR",))
    assert resampled(scores, np.ones((1, 60)))["METEOR"][0] == pytest.approx(scores.corpus["METEOR"], abs=1e-12)
    assert compare(scored(0.9, ("METEOR",)), scores, 200)["METEOR"].p_value < 0.05


def test_diversity_counts_words_pairs_and_what_training_never_said() -> None:
    captions = [["a", "dog", "runs"], ["a", "dog", "runs"], ["a", "cat"]]
    found = diversity(captions, [["a", "cat"], ["x"]])
    assert found.distinct_1 == 4 / 8
    assert found.distinct_2 == 3 / 5
    assert found.vocabulary == 4
    assert found.mean_length == pytest.approx(8 / 3)
    assert found.different == pytest.approx(2 / 3)
    assert found.novel == pytest.approx(2 / 3)
    assert diversity([[]]).distinct_1 == 0
    assert diversity([["a"]]).novel is None
