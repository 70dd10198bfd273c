"""BLEU, ROUGE-L, CIDEr-D and the index: small cases by hand, large ones equal to coco-caption."""

import gzip
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from watchword.errors import WatchwordError
from watchword.metrics import METRICS, ReferenceIndex, coco, document_frequencies, tokenise
from watchword.metrics import index as index_module
from watchword.metrics.coco import RougeReferences
from watchword.metrics.ngrams import index_references, narrow

GOLDENS = Path(__file__).parents[1] / ".." / "shared" / "data" / "metrics"
NUMPY_METRICS = ("BLEU", "ROUGE_L", "CIDEr")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def golden(name: str) -> Any:
    path = GOLDENS / name
    if not path.exists():
        pytest.skip(f"golden values are not here: {path}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


# --- by hand ---


def test_bleu_of_a_short_sentence_is_its_precision_times_the_brevity_penalty() -> None:
    index = ReferenceIndex({"v": ["a dog runs in a park"], "w": ["cats sleep"]})
    scores = index.score({"v": "a dog a a", "w": "cats sleep"}, ["BLEU"])
    # v: `a` is clipped to 2 of 3, `dog` counts: 3 of 4; `a dog` is the one pair of three; 4 words against 6
    assert scores.per_video["Bleu_1"][0] == pytest.approx(3 / 4 * math.exp(1 - 6 / 4))
    assert scores.per_video["Bleu_2"][0] == pytest.approx(math.sqrt(3 / 4 * 1 / 3) * math.exp(1 - 6 / 4))
    # corpus: 5 of 6 words, 6 words against 8
    assert scores.corpus["Bleu_1"] == pytest.approx(5 / 6 * math.exp(1 - 8 / 6))


def test_of_two_references_equally_close_in_length_the_shorter_counts() -> None:
    index = ReferenceIndex({"v": ["a b c d e", "a b c"]})
    assert index.score({"v": "a b c d"}, ["BLEU"]).per_video["Bleu_1"][0] == pytest.approx(1.0)


def test_rouge_takes_precision_and_recall_from_different_references() -> None:
    # precision 3/3 from the long reference, recall 1/1 from the short one
    assert RougeReferences([list("abcdef"), ["b"]]).score(list("abc")) == pytest.approx(1.0)
    assert RougeReferences([list("abcdef")]).score(list("axc")) == pytest.approx(
        (1 + 1.44) * (2 / 3) * (2 / 6) / (2 / 6 + 1.44 * 2 / 3)
    )


def test_rouge_sees_an_empty_caption_as_one_empty_word() -> None:
    assert RougeReferences([[]]).score([]) == 1.0
    assert RougeReferences([["a"]]).score([]) == 0.0


@pytest.mark.parametrize("length", [1, 7, 63, 64, 65, 300])
def test_rouge_of_long_sentences_equals_the_textbook_table(length: int) -> None:
    rng = np.random.default_rng(length)
    ours, theirs = (["abcde"[letter] for letter in rng.integers(0, 5, length + extra)] for extra in (0, 3))
    table = np.zeros((len(ours) + 1, len(theirs) + 1))
    for i, word in enumerate(ours):
        for j, other in enumerate(theirs):
            table[i + 1, j + 1] = table[i, j] + 1 if word == other else max(table[i, j + 1], table[i + 1, j])
    precision, recall = table[-1, -1] / len(ours), table[-1, -1] / len(theirs)
    expected = 2.44 * precision * recall / (recall + 1.44 * precision)
    assert RougeReferences([["z"], theirs]).score(ours) == pytest.approx(expected)


def test_cider_of_a_reference_itself_is_ten_and_of_one_video_zero() -> None:
    references = {"v": ["a dog runs very fast"], "w": ["two cats sleep on mats"]}
    scores = ReferenceIndex(references).score({"v": references["v"][0], "w": "x"}, ["CIDEr"])
    assert scores.per_video["CIDEr"] == pytest.approx([10.0, 0.0])
    assert ReferenceIndex({"v": ["a dog runs"]}).score({"v": "a dog runs"}, ["CIDEr"]).corpus["CIDEr"] == 0


def test_cider_weighs_a_pair_of_words_by_hand() -> None:
    # log 2 for words of one video; `a` is in both and weighs nothing. One bigram differs in length: a Gaussian of 1.
    index = ReferenceIndex({"v": ["a dog runs"], "w": ["a cat"]})
    gauss = math.exp(-1 / 72)
    unigrams, bigrams = 1 / math.sqrt(2), 1 / math.sqrt(2)  # (dog) of (dog, runs); (a dog) of (a dog, dog runs)
    expected = 10 * (unigrams + bigrams) / 4 * gauss
    assert index.score({"v": "a dog", "w": "a"}, ["CIDEr"]).per_video["CIDEr"][0] == pytest.approx(expected)


def test_a_word_that_no_reference_says_counts_each_time_in_the_norm() -> None:
    index = ReferenceIndex({"v": ["dog"], "w": ["cat"]})
    once, twice = (index.reward(["v"], [[text]], {"CIDEr": 1.0})[0, 0] for text in ("dog bird", "dog bird bird"))
    assert once == pytest.approx(10 / 4 / math.sqrt(2) * math.exp(-1 / 72))
    assert twice == pytest.approx(10 / 4 / math.sqrt(1 + 4) * math.exp(-4 / 72))


# --- goldens ---


@pytest.mark.parametrize("name", ["msvd", "msrvtt"])
def test_raw_captions_score_as_coco_caption_scores_them(name: str) -> None:
    raw, expected = golden(f"{name}_raw.json.gz"), golden(f"{name}_loo_golden.json.gz")
    references = {
        video: [text for place, text in enumerate(raw["refs"][video]) if place != raw["loo_index"][video]]
        for video in expected["ids"]
    }
    hypotheses = {video: raw["hyp"]["loo"][video] for video in expected["ids"]}
    scores = ReferenceIndex(references).score(hypotheses, NUMPY_METRICS)
    for metric, value in scores.corpus.items():
        assert value == pytest.approx(expected["scores"][metric], abs=1e-9)
        assert scores.per_video[metric] == pytest.approx(np.array(expected["per"][metric]), abs=1e-9)
    again = ReferenceIndex(references).score(hypotheses, NUMPY_METRICS)  # from the cache
    assert again.corpus == scores.corpus


@pytest.mark.slow
@pytest.mark.skipif(not index_module.meteor_available(), reason="METEOR's tables are not here")
def test_all_seven_scores_are_those_of_coco_caption_and_of_nacf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WATCHWORD_CACHE")  # METEOR's tables take half a minute to index: from the user's cache
    raw, expected = golden("msvd_raw.json.gz"), golden("msvd_loo_golden.json.gz")
    references = {
        video: [text for place, text in enumerate(raw["refs"][video]) if place != raw["loo_index"][video]]
        for video in expected["ids"]
    }
    hypotheses = {video: raw["hyp"]["loo"][video] for video in expected["ids"]}
    for _ in range(2):  # built, then from the cache
        scores = ReferenceIndex(references, cache=tmp_path).score(hypotheses)
        assert scores.corpus == pytest.approx(expected["scores"], abs=1e-9)
        assert scores.per_video["METEOR"] == pytest.approx(np.array(expected["per"]["METEOR"]), abs=1e-9)
    published = golden("nacf_msrvtt_nacf.json.gz")
    references = golden("msrvtt_raw.json.gz")["refs"]
    index = ReferenceIndex({video: references[video] for video in published["predictions"]}, cache=tmp_path)
    assert index.score(published["predictions"]).corpus["METEOR"] == pytest.approx(0.28731, abs=5e-6)


def test_edge_cases_score_as_coco_caption_scores_them(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = golden("edge_all_metrics.json.gz")
    monkeypatch.setattr(
        index_module, "tokenise", lambda captions, context: [text.split(" ") if text else [] for text in captions]
    )  # these are tokenised already
    hypotheses = {video: sentences[0] for video, sentences in expected["res"].items()}
    scores = ReferenceIndex(expected["gts"]).score(hypotheses, NUMPY_METRICS)
    for metric, value in scores.corpus.items():
        assert value == pytest.approx(expected["scores"][metric], abs=1e-9)
        assert scores.per_video[metric] == pytest.approx(np.array(expected["per"][metric]), abs=1e-9)


@pytest.mark.parametrize("system", ["nacf", "arb"])
def test_published_scores_of_nacf_are_reproduced(system: str) -> None:
    published = golden(f"nacf_msrvtt_{system}.json.gz")
    references = golden("msrvtt_raw.json.gz")["refs"]
    hypotheses = published["predictions"]
    scores = ReferenceIndex({video: references[video] for video in hypotheses}).score(hypotheses, NUMPY_METRICS)
    if system == "nacf":
        assert scores.corpus["Bleu_4"] == pytest.approx(0.42033, abs=5e-6)
        assert scores.corpus["ROUGE_L"] == pytest.approx(0.62203, abs=5e-6)
        assert scores.corpus["CIDEr"] == pytest.approx(0.51426, abs=5e-4)  # their CIDEr differs on about 33 videos
    theirs = published["per_video_scores"]
    differing = [
        video
        for row, video in enumerate(scores.videos)
        if abs(float(theirs[video]["CIDEr"]) - scores.per_video["CIDEr"][row]) > 1e-6
    ]
    assert len(differing) < 60


# --- the index ---

REFERENCES = {
    "v1": ["A man is playing a guitar.", "someone plays guitar", "a man plays the guitar on stage"],
    "v2": ["A woman isn't cooking.", "a woman slices an onion"],
    "v3": ["Two dogs are playing in the snow", "dogs run", "dogs play in snow", "call 100 200 300"],
}
ROLLOUTS = [
    ["a man is playing a guitar", "", "guitar guitar guitar", "a man's guitar"],
    ["a woman is cooking", "zebra zebra", "a woman slices an onion", "x"],
    ["dogs", "two dogs are playing in the snow", "call 100 200 300", "?!"],
]


def test_a_reward_is_the_score_of_the_same_sentence() -> None:
    index = ReferenceIndex(REFERENCES, context="line")
    for name in ("Bleu_1", "Bleu_4", "ROUGE_L", "CIDEr"):
        rewards = index.reward(list(REFERENCES), ROLLOUTS, {name: 1.0})
        assert rewards.shape == (3, 4)
        for column in range(4):
            hypotheses = {video: ROLLOUTS[row][column] for row, video in enumerate(REFERENCES)}
            expected = index.score(hypotheses, NUMPY_METRICS).per_video[name]
            assert rewards[:, column] == pytest.approx(expected, abs=1e-12)


def test_rewards_add_up_with_their_weights_in_any_order_of_videos() -> None:
    index = ReferenceIndex(REFERENCES)
    both = index.reward(["v3", "v1", "v3"], [ROLLOUTS[2], ROLLOUTS[0], ROLLOUTS[2]], {"CIDEr": 2.0, "ROUGE_L": 0.5})
    cider = index.reward(["v3", "v1"], [ROLLOUTS[2], ROLLOUTS[0]], {"CIDEr": 1.0})
    rouge = index.reward(["v3", "v1"], [ROLLOUTS[2], ROLLOUTS[0]], {"ROUGE_L": 1.0})
    assert both[:2] == pytest.approx(2 * cider + 0.5 * rouge)
    assert both[0] == pytest.approx(both[2])
    assert index.reward([], [], {"CIDEr": 1.0}).shape == (0, 0)


def test_frozen_document_frequencies_replace_those_of_the_references() -> None:
    own = ReferenceIndex(REFERENCES)
    tokens = {video: tokenise(captions, "line") for video, captions in REFERENCES.items()}
    frozen = ReferenceIndex(REFERENCES, document_frequencies(tokens, "itself"))
    weights = {"CIDEr": 1.0}
    assert frozen.reward(list(REFERENCES), ROLLOUTS, weights) == pytest.approx(
        own.reward(list(REFERENCES), ROLLOUTS, weights)
    )
    # one video of many: without frozen frequencies its CIDEr would be 0
    alone = ReferenceIndex({"v1": REFERENCES["v1"]}, document_frequencies(tokens, "itself"))
    assert alone.reward(["v1"], [ROLLOUTS[0]], weights) == pytest.approx(own.reward(["v1"], [ROLLOUTS[0]], weights))
    assert "itself, 3 videos" in alone.signature()["CIDEr"]


def test_counting_the_end_of_a_sentence_changes_cider_and_is_recorded() -> None:
    plain, ended = ReferenceIndex(REFERENCES), ReferenceIndex(REFERENCES, eos=True)
    for name, same in (("CIDEr", False), ("Bleu_4", True), ("ROUGE_L", True)):
        ours, theirs = (each.reward(["v1"], [["a man is playing"]], {name: 1.0}) for each in (plain, ended))
        assert bool(np.allclose(ours, theirs)) is same
    assert ended.signature(["CIDEr"])["CIDEr"].endswith("eos")
    again = ReferenceIndex(REFERENCES, eos=True)  # from the cache
    assert again.reward(["v1"], [ROLLOUTS[0]], {"CIDEr": 1.0}) == pytest.approx(
        ended.reward(["v1"], [ROLLOUTS[0]], {"CIDEr": 1.0})
    )


def test_an_index_is_kept_by_content_and_a_damaged_one_is_made_again(own_cache: Path) -> None:
    first = ReferenceIndex(REFERENCES)
    files = list((own_cache / "references").iterdir())
    assert [path.suffix for path in files] == [".npz"]
    ReferenceIndex(REFERENCES)
    assert list((own_cache / "references").iterdir()) == files
    ReferenceIndex({**REFERENCES, "v4": ["new"]})
    assert len(list((own_cache / "references").iterdir())) == 2
    files[0].write_bytes(files[0].read_bytes()[:100])
    again = ReferenceIndex(REFERENCES)
    assert again.reward(["v1"], [ROLLOUTS[0]], {"CIDEr": 1.0}) == pytest.approx(
        first.reward(["v1"], [ROLLOUTS[0]], {"CIDEr": 1.0})
    )


def test_references_side_by_side_in_several_integers_score_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["a dog runs very fast", "the quick dog", "", "a cat", "a dog runs", "fast runs a dog"]
    references = [line.split() for line in lines]
    captions = [line.split() for line in ("a dog very fast", "cat", "", "zebra", "the dog runs")]
    whole = [RougeReferences(references).score(caption) for caption in captions]
    monkeypatch.setattr(coco, "AT_ONCE", 2)
    assert [RougeReferences(references).score(caption) for caption in captions] == whole
    assert whole[0] > 0.8


@pytest.mark.parametrize("eos", [False, True])
def test_ngrams_of_tokens_are_those_of_their_words(eos: bool) -> None:
    """A token may hold a no-break space, and a caption may be empty; numbers come in the same order."""
    references = [[["call", "555\u00a01234", "now"], ["call", "1234"]], [[], ["now", "<eos>", "555"]]]
    tokens = index_module._Tokens.of([line for lines in references for line in lines], [2, 2])
    split = [[[*" ".join(line).split(), *["<eos>"] * eos] for line in lines] for lines in references]
    for known in (None, {"1234": 0, "zebra": 1}):
        found, wanted = tokens.ngrams(known, eos), index_references(split, known)
        assert found.table.words == wanted.table.words
        np.testing.assert_array_equal(found.lengths, wanted.lengths)
        for ours, theirs in zip(found.table.keys, wanted.table.keys, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        for one, other in zip(found.postings, wanted.postings, strict=True):
            for name in vars(one):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_numbers_are_kept_as_small_as_they_fit() -> None:
    for most, bits in ((0, 8), (127, 8), (128, 16), (32_767, 16), (32_768, 32), (1 << 31, 64)):
        assert narrow(np.array([0, most])).dtype == f"int{bits}"
        assert narrow(np.array([0, most]))[1] == most
    index = ReferenceIndex({"v": ["dog " * 300], "w": ["a cat"]})  # more than a byte counts
    assert index.score({"v": "dog " * 300, "w": "a cat"}, ["BLEU"]).corpus["Bleu_1"] == pytest.approx(1.0)
    assert index._kept.plain.postings[0].row.itemsize == 1


def test_a_cache_that_cannot_be_written_does_not_stop_scoring(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    index = ReferenceIndex(REFERENCES, cache=blocked / "inside")
    assert index.reward(["v1"], [["a man is playing a guitar."]], {"ROUGE_L": 1.0})[0, 0] == 1.0


def test_two_processes_may_build_the_same_index_at_once(own_cache: Path) -> None:
    code = (
        "from watchword.metrics import ReferenceIndex\n"
        "references = {f'v{n}': [f'a man number{n % 97} says word{n}'] * 3 for n in range(3000)}\n"
        "index = ReferenceIndex(references)\n"
        "print(index.score({v: 'a man says' for v in references}, ['CIDEr']).corpus['CIDEr'])"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": "src", "WATCHWORD_CACHE": str(own_cache), "PATH": ""},
            cwd=Path(__file__).parents[1],
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert outputs[0] == outputs[1] != b""
    assert len(list((own_cache / "references").iterdir())) == 1


def test_videos_on_one_side_only_are_named() -> None:
    index = ReferenceIndex(REFERENCES)
    with pytest.raises(WatchwordError, match=r"no caption for 'v3'; no references for 'v9'"):
        index.score({"v1": "a", "v2": "b", "v9": "c"})
    with pytest.raises(WatchwordError, match="'v9' has no references"):
        index.reward(["v9"], [["a"]], {"CIDEr": 1.0})


def test_names_that_do_not_exist_are_answered_with_the_closest() -> None:
    index = ReferenceIndex(REFERENCES)
    with pytest.raises(WatchwordError, match="did you mean 'CIDEr'"):
        index.reward(["v1"], [["a"]], {"CIDer": 1.0})
    with pytest.raises(WatchwordError, match="unknown metric 'SPICE'"):
        index.score(dict.fromkeys(REFERENCES, "a"), ["SPICE"])


@pytest.mark.parametrize("references", [{}, {"v": []}, {"v": "a string"}])
def test_references_that_are_none_are_refused(references: Any) -> None:
    with pytest.raises(WatchwordError):
        ReferenceIndex(references)


HOSTILE = ["", "word", "word " * 10_000, "?!.,;", "😀", "\x00", "a\u2028b\rc", "مرحبا", "\ud800", "'", "|||"]


def test_hostile_sentences_and_references_get_a_score(own_cache: Path) -> None:
    references = {f"v{place}": [text, "a dog"] for place, text in enumerate(HOSTILE)}
    index = ReferenceIndex(references)
    scores = index.score({f"v{place}": text for place, text in enumerate(HOSTILE)}, NUMPY_METRICS)
    assert all(np.isfinite(values).all() for values in scores.per_video.values())
    assert set(scores.corpus) == {name for metric in NUMPY_METRICS for name in METRICS[metric]}
    again = ReferenceIndex(references).score(dict.fromkeys(references, "a dog"), NUMPY_METRICS)
    assert again.per_video["ROUGE_L"] == pytest.approx(np.ones(len(HOSTILE)))  # alignment held


def test_without_its_tables_meteor_is_refused_and_the_rest_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "meteor_available", lambda: False)
    index = ReferenceIndex(REFERENCES)
    hypotheses = dict.fromkeys(REFERENCES, "a man")
    assert "METEOR" not in index.score(hypotheses).corpus
    assert "CIDEr" in index.score(hypotheses).corpus
    with pytest.raises(WatchwordError, match=r"watchword\[meteor\]"):
        index.reward(["v1"], [["a"]], {"METEOR": 1.0})
