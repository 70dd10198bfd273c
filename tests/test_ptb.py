"""The tokenizer: equal to the original on every golden line, and calm with hostile text."""

import gzip
import importlib.util
import json
import random
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from watchword.text.ptb import ptb_tokens, tokenise, tokenise_line

GOLDENS = Path(__file__).parents[1] / ".." / "shared" / "data" / "metrics"


def golden(name: str) -> list[Any]:
    path = GOLDENS / name
    if not path.exists():
        pytest.skip(f"golden values are not here: {path}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def differences(captions: list[str], expected: list[str]) -> list[tuple[str, str, str]]:
    found = [" ".join(tokens) for tokens in ptb_tokens(captions, "coco")]
    return [row for row in zip(captions, expected, found, strict=True) if row[1].rstrip() != row[2]]


@pytest.mark.parametrize("name", ["ptb_real.jsonl.gz", "ptb_fuzz.jsonl.gz"])
def test_every_golden_line_is_tokenised_as_the_original_does(name: str) -> None:
    rows = golden(name)
    assert differences([row[0] for row in rows], [row[1] for row in rows]) == []


@pytest.mark.parametrize(("key", "following"), [("out_next_lower", "zzz"), ("out_next_upper", "Zzz a")])
def test_tricky_lines_are_tokenised_as_the_original_does_in_both_contexts(key: str, following: str) -> None:
    rows = golden("ptb_tricky.jsonl.gz")
    captions = [text for row in rows for text in (row["in"], following)]
    expected = [text for row in rows for text in (row[key], following.lower())]
    assert differences(captions, expected) == []


@pytest.mark.parametrize(
    ("caption", "tokens"),
    [
        ("A man's dog isn't running, they'll go!", "a man 's dog is n't running they 'll go"),
        ("a t-shirt and a 10-year-old boy -- fun", "a t-shirt and a 10-year-old boy fun"),
        ("you cannot, I'm gonna", "you can not i 'm gon na"),
        ("(brackets) survive the filter!!", "-lrb- brackets -rrb- survive the filter !!"),
        ("50% of $5.00 at 10:30am", "50 % of $ 5.00 at 10:30 am"),
        ("call 100 200 300", "call 100\xa0200\xa0300"),
        ("“curly” and ‘single’ and it’s", "curly and single and it 's"),
        ("Mr. Smith of the U.S. army.", "mr. smith of the u.s. army"),
        ("a 😀 smile", "a smile"),
        ("soft\xadhyphen", "softhyphen"),
        ("", ""),
        ("?!", "?!"),
        ("... , ; :", ""),
    ],
)
def test_a_caption_becomes_these_tokens(caption: str, tokens: str) -> None:
    assert tokenise_line(caption) == tokens.split(" ") if tokens else tokenise_line(caption) == []


def test_the_next_caption_is_context_in_coco_and_is_not_in_line() -> None:
    captions = ["a sign that reads K.", "The dog", "a sign that reads K.", "two dogs"]
    assert [tokens[-1] for tokens in tokenise(captions, "coco")] == ["k", "dog", "k.", "dogs"]
    assert [tokens[-1] for tokens in tokenise(captions, "line")] == ["k.", "dog", "k.", "dogs"]


def test_the_end_of_all_captions_is_context_too() -> None:
    assert ptb_tokens(["they'll"], "coco") == [["they", "`", "ll"]]  # so does the original
    assert ptb_tokens(["they'll"], "line") == [["they", "'ll"]]
    assert ptb_tokens(["they'll", "go"], "coco") == [["they", "'ll"], ["go"]]


HOSTILE = [
    "", " ", "\x00", "a\x00b", "\ud800", "a\udfffb@\ud800c", "a\rb", "a\x0bb\x0cc", "a\u2028b\u2029c\x85d", "\n\n",
    "\x1c\x1d", "🙂" * 50, "مرحبا بالعالم", "שלום", "'", "\"", ".", "...", "<", "<a", "K.", "etc.", "\ufeff",
    "a" * 5000, "1 " * 3000, "a man " * 5000, "ÅÄÖ", "\u202eabc", "&", "&amp;", "\\", "%s %d {0}", "-" * 100, "http://",
    "@", "#",
]  # fmt: skip


@pytest.mark.parametrize("caption", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_never_moves_its_neighbours(caption: str) -> None:
    batch = ["a dog runs", caption, "two cats sleep", caption, "the end"]
    tokens = tokenise(batch, "coco")
    assert len(tokens) == len(batch)
    assert [tokens[0], tokens[2], tokens[4]] == [["a", "dog", "runs"], ["two", "cats", "sleep"], ["the", "end"]]
    assert all(token and "\n" not in token for each in tokens for token in each)
    " ".join(tokenise_line(caption)).encode("utf-8")


@pytest.mark.parametrize("separator", list("\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))
def test_a_separator_of_lines_inside_a_caption_is_a_space(separator: str) -> None:
    assert tokenise_line(f"a man{separator}runs") == ["a", "man", "runs"]


@pytest.mark.parametrize("unit", ["a,b", "a.b-", "<a b", "<!a ", "a@b,", "K. ", "(555) ", "n't", "a.com", "1,2 ", "'"])
def test_long_text_without_a_pause_takes_seconds_not_minutes(unit: str) -> None:
    start = time.process_time()
    tokenise_line(unit * (20_000 // len(unit)))
    assert time.process_time() - start < 10


def test_ten_thousand_words_stay_ten_thousand_words() -> None:
    assert len(tokenise_line("word " * 10_000)) == 10_000


# --- against the original ---


def original(captions: list[str], folder: Path) -> list[str]:
    spec = importlib.util.find_spec("pycocoevalcap.tokenizer.ptbtokenizer")
    if spec is None or spec.origin is None or shutil.which("java") is None:
        pytest.skip("Java or pycocoevalcap is not here")
    jar = Path(spec.origin).parent / "stanford-corenlp-3.4.1.jar"
    path = folder / "captions.txt"
    path.write_text("\n".join(captions), "utf-8")
    command = ["java", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"]
    output = subprocess.run([*command, str(path)], capture_output=True, check=True).stdout.decode("utf-8")
    return [line.rstrip(" \r") for line in output.split("\n")[: len(captions)]]


@pytest.mark.slow
def test_new_mutations_are_tokenised_as_the_jar_does(tmp_path: Path) -> None:
    rng = random.Random(20)
    captions = [row[0] for row in golden("ptb_real.jsonl.gz")[::50]]
    pieces = [piece for row in golden("ptb_tricky.jsonl.gz") for piece in row["in"].split()]
    lines = []
    for _ in range(20_000):
        letters = list(rng.choice(captions))
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(letters) + 1)
            mark = rng.choice("'\".,-/:;!?&$#@%*()[]<>_+=`’‘“”–…5")
            letters.insert(place, rng.choice([mark, f" {rng.choice(pieces)} "]))
        lines.append("".join(letters))
    for _ in range(20_000):
        lines.append("".join(rng.choice("aAbsStTnN15.,'’-/: !?&$#@\"()_<>+=*%;é") for _ in range(rng.randint(1, 10))))
    assert differences(lines, original(lines, tmp_path)) == []
