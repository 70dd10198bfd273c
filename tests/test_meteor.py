"""METEOR without Java is METEOR: every statistic, every quirk; and without its tables there is no number at all."""

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.errors import WatchwordError
from watchword.metrics import meteor
from watchword.metrics.meteor import MeteorIndex, index, score, tables
from watchword.metrics.meteor.align import EXACT, Candidates, align
from watchword.metrics.meteor.arrays import java_hash, ngram_keys, word_keys
from watchword.metrics.meteor.normalise import normalise, stem
from watchword.metrics.meteor.tables import Tables, load_tables

GOLDEN = Path(__file__).parents[1] / ".." / "shared" / "data" / "metrics"
SOURCE = Path(__file__).parents[1] / "src"


def golden(name: str) -> Any:
    if not (GOLDEN / name).exists():
        pytest.skip(f"no golden values at {GOLDEN}")
    with gzip.open(GOLDEN / name, "rt", encoding="utf-8") as file:
        return json.load(file)


@pytest.fixture(scope="module")
def real_tables() -> Tables:
    """METEOR's own tables; the first use on a machine takes some seconds."""
    if not meteor.available():
        pytest.skip("METEOR's tables are not on this machine")
    return load_tables()


# ------------------------------------------------------------------------------------------ a small METEOR of our own

PAIRS = [
    ("rides a bike", "cycles"),
    ("cycles", "rides a bike"),
    ("cycles", "goes by bike"),
    ("big dog", "hound"),
    ("in the park", "outside"),
]


def write_tables(folder: Path, repeat: int = 1) -> Path:
    """A jar and a paraphrase table in METEOR's formats, with a handful of words."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "meteor-1.5.jar", "w") as jar:
        jar.writestr("function/english.words", "the\na\nis\n.\n")
        jar.writestr("nonbreaking/english.prefixes", "#comment\nMr\nNo #NUMERIC_ONLY# \n")
        jar.writestr("synonym/english.synsets", "boy\n1\nguy\n2 3\nlad\n1\nman\n2\nfellow\n3\nhot_dog\n4\n")
        jar.writestr("synonym/english.exceptions", "man\nmen mans\n")
    text = "".join(f"0.5\n{source}\n{target}\n" for source, target in PAIRS)
    text += "".join(f"0.1\nword{number} x\ny word{number}\n" for number in range(repeat))
    (folder / "paraphrase-en.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return folder


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tables:
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WATCHWORD_METEOR", str(write_tables(tmp_path / "tables")))
    return load_tables()


def statistics(hypothesis: str, *references: str, tables: Tables | None = None) -> list[int]:
    found = MeteorIndex({"v": [line.split() for line in references]}, tables).statistics("v", hypothesis.split())
    return [int(value) for value in found]


def row(lengths: str, modules: str, chunks: int, matched: str) -> list[int]:
    return [*map(int, lengths.split()), *map(int, modules.split()), chunks, *map(int, matched.split())]


def test_equal_sentences_match_in_one_chunk(small: Tables) -> None:
    assert statistics("a man runs", "a man runs") == row("3 3 1 1", "2 2 1 1  0 0 0 0  0 0 0 0  0 0 0 0", 1, "3 3")


def test_each_module_matches_what_the_one_before_left(small: Tables) -> None:
    # a-a exact, walking-walks stem, guy-men synonym (men is an irregular man), hound-big dog paraphrase
    found = statistics("a walking guy hound", "a walks men big dog")
    assert found == row("4 5 1 1", "0 0 1 1  1 1 0 0  1 1 0 0  1 2 0 0", 1, "4 5")


def test_a_paraphrase_is_found_in_either_direction(small: Tables) -> None:
    expected = row("4 2 1 0", "1 1 0 0  0 0 0 0  0 0 0 0  2 1 1 0", 1, "4 2")
    assert statistics("she rides a bike", "she cycles") == expected
    only_forward = row("4 2 0 0", "1 1 0 0  0 0 0 0  0 0 0 0  3 1 0 0", 1, "4 2")
    assert statistics("she goes by bike", "she cycles") == only_forward


def test_synonyms_do_not_chain(small: Tables) -> None:
    assert statistics("man", "fellow")[score.MATCHED] == 0  # both are a guy, but not in the same sense


def test_words_with_one_java_hash_are_one_word(small: Tables) -> None:
    assert java_hash("tv") == java_hash("v8") == 3714
    assert statistics("tv", "v8") == row("1 1 0 0", "1 1 0 0  0 0 0 0  0 0 0 0  0 0 0 0", 1, "1 1")


def test_a_lone_synonym_with_rivals_is_not_worth_its_chunk(small: Tables) -> None:
    # cycles -> rides a bike is in the table in both directions: two candidates, so no definite match; weight floor(1/2)
    # + floor(3/2) = 1 is worth a chunk. A lone synonym weighs 0 and is matched only because it is definite.
    assert statistics("man", "guy")[score.MATCHED] == 1
    assert statistics("man man", "guy")[score.MATCHED] == 0


def test_the_first_of_equally_good_references_wins(small: Tables) -> None:
    assert statistics("x man", "man y z", "y man z", "man") == statistics("x man", "man")
    assert statistics("nothing", "a b c", "d") == row("1 3 0 1", "0 " * 16, 0, "0 0")


def test_the_score_by_hand(small: Tables) -> None:
    made = MeteorIndex({"v": [["a", "man", "runs"]]})
    # matched: a (function, 0.25) and man (content, 0.75) of weighted lengths 0.25 + 0.75 and 0.25 + 2 * 0.75
    precision, recall = 1.0, 1.0 / 1.75
    mean = 1 / (0.15 / precision + 0.85 / recall)
    assert made.segment("v", ["a", "man"]) == pytest.approx(mean * (1 - 0.6 * (1 / 2) ** 0.2), abs=1e-15)
    assert made.segment("v", ["a", "man", "runs"]) == 1.0
    assert made.segment("v", []) == 0.0


def test_the_corpus_score_adds_statistics_and_forgives_perfect_chunks(small: Tables) -> None:
    made = MeteorIndex({"one": [["man", "runs"]], "two": [["boy", "walks"]]})
    rows = made.statistics_of([("one", ["man", "runs"]), ("two", ["boy", "sleeps"])])
    precision = recall = 3 / 4
    by_hand = 1 / (0.15 / precision + 0.85 / recall) * (1 - 0.6 * (1 / 3) ** 0.2)  # one chunk, not two
    assert made.corpus(rows) == pytest.approx(by_hand, abs=1e-15)
    assert made.corpus(rows[:1]) == 1.0


def test_an_unknown_video_is_named(small: Tables) -> None:
    with pytest.raises(WatchwordError, match="unknown video 'vidoe1'; did you mean 'video1'"):
        MeteorIndex({"video1": [["a"]]}).segment("vidoe1", ["a"])


def test_a_video_without_references_is_refused(small: Tables) -> None:
    with pytest.raises(WatchwordError, match="video 'v' has no references"):
        MeteorIndex({"v": []})


def test_a_saved_index_gives_the_same_numbers(small: Tables, tmp_path: Path) -> None:
    references = {"one": [["a", "man", "cycles"], ["the", "boy"]], "two": [["outside", "v8"], []]}
    asked = [("one", ["a", "guy", "rides", "a", "bike"]), ("two", ["in", "the", "park", "tv"]), ("one", ["lads", "z"])]
    made = MeteorIndex(references)
    expected = made.statistics_of(asked)  # teaches it the hypotheses' words, which must not be kept
    folder = tmp_path / "index"
    folder.mkdir()
    made.save(folder)
    assert all(file.suffix in {".npy", ".json"} for file in folder.iterdir())
    np.testing.assert_array_equal(MeteorIndex.load(folder).statistics_of(asked), expected)
    (folder / "meteor_word.npy").unlink()
    with pytest.raises(WatchwordError, match="cannot read the METEOR index"):
        MeteorIndex.load(folder)


def test_an_index_of_other_tables_is_refused(small: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MeteorIndex({"v": [["a"]]}).save(tmp_path)
    monkeypatch.setenv("WATCHWORD_METEOR", str(write_tables(tmp_path / "others", repeat=2)))
    with pytest.raises(WatchwordError, match="other tables"):
        MeteorIndex.load(tmp_path)


HOSTILE = {
    "empty": "",
    "one word": "man",
    "punctuation": "... !? ,,, -- ''",
    "emoji": "👨‍👩‍👧 man 🇺🇸",
    "nul": "a\0man \0",
    "line separators": "a\u2028man\u2029runs\x0b\x0c\x85",
    "right to left": "\u202eרץ איש\u202c man",
    "lone surrogates": "a \ud83d man \udc2e",
    "separator": "a ||| man ||| runs",
    "10,000 words": "a man runs " * 3333 + "a",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_gets_a_score_and_shifts_nothing(text: str, small: Tables) -> None:
    made = MeteorIndex({"before": [["a", "man"]], "v": [text.split(" ")[:60]], "after": [["the", "boy"]]})
    scores = made.segments([("before", ["a", "man"]), ("v", text.split(" ")), ("after", ["the", "boy"])])
    assert scores[[0, 2]].tolist() == [1.0, 1.0]
    assert 0.0 <= scores[1] <= 1.0
    assert np.isfinite(made.segments([(video, text.split(" ")) for video in ("before", "after")])).all()


def test_more_matches_than_memory_is_one_clear_line(small: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MOST_CANDIDATES", 50)
    made = MeteorIndex({"v": [["a"] * 5], "w": [["a"] * 5]})
    assert made.segments([("v", ["a"] * 10), ("w", ["a"] * 9)]).size == 2  # too many together, not alone
    with pytest.raises(WatchwordError, match=r"video 'v' \(11 words\) has more than 50 possible matches"):
        made.segment("v", ["a"] * 11)


# ------------------------------------------------------------------------------------------------------ normalisation

NORMALISED = {
    "A man rides": "a man rides",
    "a man .": "a man .",
    "it's a dog's t-shirt": "it 's a dog 's t shirt",
    "the 90's , 1,000 a,b": "the 90 's , 1,000 a , b",
    "9'x x'9 'tis dogs' don't": "9'x x ' 9 ' tis dogs ' don 't",
    "a-b-c a--b a -- b x- –": "a b-c a b a - b x- -",
    "u.s. army at 3.5. A": "us army at 3.5 . a",
    "mr. x No. 5 no. 5 e.g. y": "mr. x no. 5 no . 5 eg y",
    "so... what .. now.": "so ... what .. now .",
    "“quoted” ''this'' `that`": '" quoted " " this " \' that \'',
    "50% a/b (c) x_y 日本": "50 % a / b ( c ) x _ y 日 本",
    "a\u00a0b\u3000c\x0bd": "a b c\x0bd",
}


@pytest.mark.parametrize(("line", "expected"), NORMALISED.items())
def test_a_line_is_normalised_as_the_jar_does(line: str, expected: str) -> None:
    assert normalise(line, {"Mr": False, "No": True, "e.g": False}) == expected.split(" ")


def test_stems_are_those_of_snowball_before_version_3() -> None:
    assert [stem(word) for word in ("adding", "running", "generously")] == ["ad", "run", "generous"]
    path = GOLDEN / "stem_en.tsv.gz"
    if not path.exists():
        pytest.skip(f"no golden stems at {path}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t") for line in file][::10]
    assert [(word, stem(word)) for word, _ in pairs] == [(word, expected) for word, expected in pairs]


# ------------------------------------------------------------------------------------------------------------- search


def search_one_pair(matches: list[tuple[int, int, int, int, int]], reference_length: int) -> tuple[int, list[int]]:
    """The search as a plain program for one pair: chunks, and rows of the matches taken."""
    covered = {
        (side, word): sum(m[side] <= word < m[side] + m[side + 1] for m in matches)
        for m0 in matches
        for side in (0, 2)
        for word in range(m0[side], m0[side] + m0[side + 1])
    }
    at = [[k for k, m in enumerate(matches) if m[0] == place] for place in range(reference_length)]

    def is_definite(k: int) -> bool:
        m = matches[k]
        return len(at[m[0]]) == 1 and all(
            covered[side, word] == 1 for side in (0, 2) for word in range(m[side], m[side] + m[side + 1])
        )

    def key(path: dict[str, Any]) -> tuple[int, int, int]:
        return (-path["weight"], path["chunks"], path["distance"])

    def after(path: dict[str, Any], k: int) -> dict[str, Any]:
        reference, reference_words, hypothesis, words, kind = matches[k]
        weight = reference_words + words if kind == EXACT else reference_words // 2 + words // 2
        return {
            "weight": path["weight"] + weight,
            "chunks": path["chunks"] + (path["open"] not in (None, hypothesis)),
            "distance": path["distance"],
            "open": hypothesis + words,
            "free": reference + reference_words,
            "used": path["used"] | set(range(hypothesis, hypothesis + words)),
            "taken": [*path["taken"], k],
        }

    paths: list[dict[str, Any]] = [
        {"weight": 0, "chunks": 0, "distance": 0, "open": None, "free": 0, "used": frozenset(), "taken": []}
    ]
    for place in range(reference_length):
        following = []
        for path in sorted(paths, key=key)[:40]:
            if path["free"] > place:
                following.append(path)
                continue
            if at[place] and is_definite(at[place][0]):
                child = after(path, at[place][0])
                child["distance"] += abs(matches[at[place][0]][0] - matches[at[place][0]][2])
                following.append(child)
                continue
            for k in at[place]:
                if not path["used"] & set(range(matches[k][2], matches[k][2] + matches[k][3])):
                    following.append(after(path, k))
                    path["distance"] += abs(matches[k][0] - matches[k][2])
            path["chunks"] += path["open"] is not None
            path["open"] = None
            following.append(path)
        paths = following
    paths = sorted(paths, key=key)[:40]
    for path in paths:
        path["chunks"] += path["open"] is not None
    best = min(paths, key=key)
    return best["chunks"], best["taken"]


@st.composite
def matches_of_pairs(draw: st.DrawFn) -> list[tuple[int, int, list[tuple[int, int, int, int, int]]]]:
    pairs = []
    for _ in range(draw(st.integers(1, 4))):
        reference, hypothesis = draw(st.integers(1, 9)), draw(st.integers(1, 9))
        matches = []
        for _ in range(draw(st.integers(0, 40))):
            first, second = draw(st.integers(0, reference - 1)), draw(st.integers(0, hypothesis - 1))
            kind = draw(st.integers(0, 4))
            longest = 1 if kind < 3 else 3
            matches.append(
                (
                    first,
                    draw(st.integers(1, min(longest, reference - first))),
                    second,
                    draw(st.integers(1, min(longest, hypothesis - second))),
                    kind,
                )
            )
        pairs.append((reference, hypothesis, matches))
    return pairs


@settings(max_examples=60)
@given(matches_of_pairs())
def test_many_pairs_at_once_are_searched_as_one_alone(pairs: list[Any]) -> None:
    rows = [(n, *match) for n, (_, _, matches) in enumerate(pairs) for match in matches]
    columns = np.array(rows, np.int64).reshape(-1, 6).T
    candidates = Candidates(*columns, rank=np.zeros(columns.shape[1], np.int64))
    candidates = candidates.take(candidates.order())
    found = align(candidates, np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs]))
    fields = ("reference", "reference_length", "hypothesis", "hypothesis_length", "kind")
    for n, (reference_length, _, _) in enumerate(pairs):
        own = np.flatnonzero(candidates.pair == n)
        matches = [tuple(int(getattr(candidates, field)[k]) for field in fields) for k in own]
        chunks, taken = search_one_pair(matches, reference_length)
        assert found.chunks[n] == chunks
        assert sorted(found.match[found.pair == n].tolist()) == [int(own[k]) for k in taken]


def test_bounds_never_hide_the_best_reference(small: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["a", "the", "man", "men", "guy", "boy", "lad", "rides", "bike", "cycles", "runs"]
    words += ["big", "dog", "hound", "in", "park", "outside", ".", "is"]
    dice = random.Random(3)

    def sentence() -> list[str]:
        return dice.choices(words, k=dice.randint(0, 12))

    references = {str(video): [sentence() for _ in range(8)] for video in range(60)}
    asked = [(video, sentence()) for video in references for _ in range(4)]
    pruned = MeteorIndex(references).statistics_of(asked)
    monkeypatch.setattr(index, "upper_bounds", lambda _, starts, *rest: np.full(starts.shape[1], 2.0))
    np.testing.assert_array_equal(MeteorIndex(references).statistics_of(asked), pruned)


def test_references_in_pieces_are_indexed_and_searched_as_all_at_once(
    small: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(4)
    words = ["a", "the", "man", "guy", "rides", "bike", "cycles", "big", "dog", "hound", "park", "mango"]
    references = {str(n): [dice.choices(words, k=dice.randint(0, 9)) for _ in range(1 + n % 4)] for n in range(30)}
    asked = [(video, dice.choices(words, k=6)) for video in references for _ in range(2)]
    whole = MeteorIndex(references)
    expected = whole.statistics_of(asked)
    for name, value in (("WORDS_AT_ONCE", 16), ("MOST_PAIRS", 4)):
        monkeypatch.setattr(index, name, value)
    pieces = MeteorIndex(references)
    for name, values in vars(pieces._places).items():
        np.testing.assert_array_equal(values, getattr(whole._places, name), name)
    sizes = [len(batch) for batch in pieces._batches([(video, "a") for video, _ in asked])]
    assert (sum(sizes), min(sizes), max(sizes)) == (len(asked), 1, 3)
    np.testing.assert_array_equal(pieces.statistics_of(asked), expected)


# ------------------------------------------------------------------------------------------------------------- tables


def test_the_table_is_the_same_however_its_pieces_fall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that come again, phrases on one side only, words in many pieces: against dictionaries."""
    dice = random.Random(3)
    phrases = [" ".join(dice.choices("ab c dé fgh i j klmno".split(), k=dice.randint(1, 3))) for _ in range(60)]
    pairs = [(source, target) for source in dice.choices(phrases, k=40) for target in dice.choices(phrases, k=5)]
    jar, table = write_tables(tmp_path) / "meteor-1.5.jar", tmp_path / "paraphrase-en.gz"
    table.write_bytes(gzip.compress("".join(f"0.5\n{source}\n{target}\n" for source, target in pairs).encode()))
    monkeypatch.setattr(tables, "PIECE_BYTES", 64)
    monkeypatch.setattr(tables, "KNOWN_WORDS", 2)
    (tmp_path / "index").mkdir()
    tables.build(jar, table, tmp_path / "index", lambda doing, share: None)
    (tmp_path / "index" / "hash.txt").write_text("x")
    built = tables._open(tmp_path / "index").phrases
    known = sorted({phrase for pair in pairs for phrase in pair})
    keys = {phrase: ngram_keys(word_keys(phrase.split()), len(phrase.split())) for phrase in known}
    number = {phrase: int(built.find(key)[0]) for phrase, key in keys.items()}
    assert sorted(number.values()) == list(range(len(known)))
    for phrase, at in number.items():
        targets = [number[target] for source, target in pairs if source == phrase]
        sources = [number[source] for source, target in pairs if target == phrase]
        assert built.targets[built.target_starts[at] : built.target_starts[at + 1]].tolist() == targets
        assert built.sources[built.source_starts[at] : built.source_starts[at + 1]].tolist() == sources


def test_keys_that_begin_alike_are_put_in_order() -> None:
    """Eight keys: their last four bits do not take part in the first sort."""
    keys = np.array([19, 17, 2, 18, 17, 1, 19, 3], np.uint64)
    assert tables._stable_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()


def test_without_tables_there_is_one_clear_line_and_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path))
    monkeypatch.delenv("WATCHWORD_METEOR", raising=False)
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    assert not meteor.available()
    for ask in (meteor.table_hash, lambda: MeteorIndex({"v": [["a"]]})):
        with pytest.raises(WatchwordError, match="METEOR's tables are not here: watchword weights get meteor") as error:
            ask()
        assert "\n" not in str(error.value)
    monkeypatch.setenv("WATCHWORD_METEOR", str(tmp_path / "nowhere"))
    with pytest.raises(WatchwordError, match=r"WATCHWORD_METEOR=.*nowhere does not hold"):
        meteor.load_tables()


def test_fetched_tables_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path))
    monkeypatch.delenv("WATCHWORD_METEOR", raising=False)
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    write_tables(meteor.PACKAGED_FILES[0].path.parent)
    assert meteor.available()


def test_a_table_that_breaks_off_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WATCHWORD_METEOR", str(write_tables(tmp_path / "tables")))
    (tmp_path / "tables" / "paraphrase-en.gz").write_bytes(gzip.compress(b"0.5\na b\nc d\n0.5\na b\n"))
    with pytest.raises(WatchwordError, match="ends in the middle"):
        load_tables()
    assert not list((tmp_path / "cache").rglob("*.npy"))


BUILD = """
import os, sys, time
from watchword.metrics.meteor import MeteorIndex, load_tables
def progress(doing, share):
    print(doing, flush=True)
    time.sleep(float(sys.argv[1]))
tables = load_tables(progress)
print(tables.phrases.keys.size, MeteorIndex({"v": [["cycles"]]}).segment("v", "rides a bike".split()), flush=True)
"""


def builder(pause: float) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, str(pause)], env=environment, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def unbuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WATCHWORD_METEOR", str(write_tables(tmp_path / "tables", repeat=200)))
    return tmp_path / "cache" / "meteor"


def test_two_processes_that_build_at_once_both_end_with_the_right_index(unbuilt: Path) -> None:
    both = [builder(0.3), builder(0.3)]
    lines = [process.communicate(timeout=60)[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert lines[0][-1] == lines[1][-1]
    assert lines[0][-1].startswith(f"{400 + len({phrase for pair in PAIRS for phrase in pair})} ")
    assert sorted(len(found) for found in lines)[0] == 1  # one built, the other waited and built nothing
    assert not list(unbuilt.glob("building-*.tmp"))


def test_a_killed_build_leaves_nothing_half_written(unbuilt: Path) -> None:
    process = builder(60)
    assert process.stdout is not None
    process.stdout.readline()  # it is in the middle
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert not [path for path in unbuilt.iterdir() if path.is_dir() and path.name.endswith(f"-{tables.LAYOUT}")]
    built = builder(0)
    assert built.communicate(timeout=60)[0].splitlines()[-1].startswith("407 ")
    assert not list(unbuilt.glob("building-*.tmp"))  # the remains are swept up


# ------------------------------------------------------------------------------------------------------------- parity


def test_the_real_tables_have_their_known_size(real_tables: Tables) -> None:
    phrases = real_tables.phrases
    assert (phrases.keys.size, phrases.targets.size) == (2_616_378, 5_274_084)
    assert int((np.diff(phrases.target_starts) > 0).sum()) == 430_639
    np.testing.assert_array_equal(phrases.find(phrases.keys[::997]), np.arange(phrases.keys.size)[::997])
    assert (phrases.find(phrases.keys[::997] + np.uint64(1)) == -1).all()


@pytest.mark.slow
def test_every_edge_case_has_the_jars_23_statistics(real_tables: Tables) -> None:
    cases = golden("meteor_edge.json.gz")
    made = MeteorIndex({str(n): [line.split(" ") for line in case[1]] for n, case in enumerate(cases)})
    found = made.statistics_of([(str(n), case[0].split(" ")) for n, case in enumerate(cases)])
    np.testing.assert_array_equal(found, [[float(value) for value in case[2].split()] for case in cases])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["msvd", "msrvtt"])
def test_a_whole_test_set_has_the_jars_23_statistics_and_score(name: str, real_tables: Tables) -> None:
    case = golden(f"{name}_loo_golden.json.gz")
    made = MeteorIndex({video: [line.split(" ") for line in case["tok_refs"][video]] for video in case["ids"]})
    asked = [(video, case["tok_hyps"][video][0].split(" ")) for video in case["ids"]]
    found = made.statistics_of(asked)
    np.testing.assert_array_equal(found, [[float(value) for value in line.split()] for line in case["meteor_stats"]])
    assert made.corpus(found) == pytest.approx(case["scores"]["METEOR"], abs=1e-9)
    np.testing.assert_allclose(made.segments(asked), case["per"]["METEOR"], atol=1e-9)


@pytest.mark.slow
def test_the_jar_itself_agrees_on_sentences_nobody_has_seen(real_tables: Tables) -> None:
    """Live, some 20 s: shuffled, joined and mutated captions, raw text with odd characters."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("no Java on this machine")
    dice = random.Random()
    references = [line for lines in golden("msvd_loo_golden.json.gz")["tok_refs"].values() for line in lines]
    odd = ["t-shirt", "u.s.", "it's", "...", "1,000", "v8", "tv", "–", "“", "é-x", "日本", "a\u00a0b", "👨", "--x"]
    cases = []
    for _ in range(400):
        words = " ".join(dice.sample(references, dice.randint(1, 5))).split()
        for _ in range(dice.randint(0, 3)):
            words.insert(dice.randrange(len(words) + 1), dice.choice(odd))
        if dice.random() < 0.5:
            dice.shuffle(words)
        half = " ".join(dice.sample(words, len(words) // 2))
        cases.append((" ".join(words[:60]), [*dice.sample(references, 4), half]))
    command = [java, "-Xmx2G", "-Dfile.encoding=UTF-8", "-jar", str(tables.find_sources().jar)]
    lines = "".join(f"SCORE ||| {' ||| '.join(lines)} ||| {hypothesis}\n" for hypothesis, lines in cases)
    result = subprocess.run(
        [*command, "-", "-", "-stdio", "-l", "en", "-norm"], input=lines.encode(), capture_output=True, check=True
    )
    made = MeteorIndex({str(n): [line.split(" ") for line in case[1]] for n, case in enumerate(cases)})
    found = made.statistics_of([(str(n), case[0].split(" ")) for n, case in enumerate(cases)])
    expected = [[float(value) for value in line.split()] for line in result.stdout.decode().splitlines()]
    different = [case for case, ours, jars in zip(cases, found.tolist(), expected, strict=True) if ours != jars]
    assert not different
