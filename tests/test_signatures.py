"""Semantic search over signatures: as near as a search of every vector, whatever is edited, removed or upgraded."""

import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.libraries import add, child, found, line_of, said
from watchword.library import Library, signatures
from watchword.library import library as library_module
from watchword.library.database import FROM_3, VERSION


class Noise:
    """An encoder whose vectors are spread evenly, and near each other for captions that share their first word."""

    name = "noise"

    def encode(self, captions: Sequence[str]) -> NDArray[np.float32]:
        rows = []
        for caption in captions:
            first, *_ = caption.split() or [""]
            theme, own = (np.random.default_rng(zlib.crc32(text.encode())) for text in (first, caption))
            rows.append(theme.normal(size=128) + 0.7 * own.normal(size=128))
        vectors = np.array(rows, np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


THEMES = ("dog", "cat", "guitar", "kitchen", "horse")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """40 captions of each theme, in blocks of 64 segments."""
    monkeypatch.setattr(signatures, "BLOCK_SIZE", 64)
    library = Library(tmp_path / "library.db", Noise)
    for number in range(20):
        add(
            library,
            *(f"{theme} w{number} {half}" for theme in THEMES for half in ("north", "south")),
            identity=str(number),
        )
    return library


def signatures_of(path: Path) -> list[tuple[str, int, bytes, bytes]]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT encoder, block, lanes, bits FROM signatures ORDER BY encoder, block").fetchall()
    connection.close()
    return rows


def test_few_candidates_find_what_all_vectors_find(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [f"{theme} question{number}" for theme in THEMES for number in range(4)]
    exact = [found(library, query, semantic=True, limit=10) for query in queries]
    assert library.count_hits("dog x", semantic=True) >= 40
    monkeypatch.setattr(signatures, "NUM_CANDIDATES", 30)
    near = [found(library, query, semantic=True, limit=10) for query in queries]
    shared = [len(set(one) & set(other)) / 10 for one, other in zip(exact, near, strict=True)]
    assert np.mean(shared) >= 0.9
    assert library.count_hits("dog x", semantic=True) < 40  # not every vector was compared


def test_equal_captions_come_by_confidence_and_pages_share_no_hit(tmp_path: Path) -> None:
    library = Library(tmp_path / "library.db", Noise)
    add(library, *(said("dog runs", 0.1 * (number * 3 % 8)) for number in range(8)), "dog", "dog barks", "cat sits")
    whole = library.search("dog runs", limit=11, semantic=True)
    assert [round(10 * hit.confidence) for hit in whole[:8]] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert [hit.rank for hit in whole] == sorted((hit.rank for hit in whole), reverse=True)
    pages = [library.search("dog runs", limit=3, offset=offset, semantic=True) for offset in range(0, 15, 3)]
    assert [hit for page in pages for hit in page] == whole
    assert len(whole) == library.count_hits("dog runs", semantic=True) == 10


def test_candidates_that_are_excluded_make_room_for_others(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "NUM_CANDIDATES", 10)
    best = found(library, "dog x", semantic=True, limit=10)
    words = {caption.split()[1] for caption in best}
    others = found(library, "dog x " + " ".join(f"-{word}" for word in words), semantic=True, limit=10)
    assert len(others) >= 5
    assert not set(others) & set(best)


def test_removed_and_edited_captions_leave_no_signature(library: Library) -> None:
    library.embed()
    (hit,) = library.search("dog w3 north", semantic=True, limit=1)
    assert hit.caption == "dog w3 north"
    library.edit(hit.video, 0, "guitar w99 east")
    assert found(library, "guitar w99 east", semantic=True, limit=1) == ["guitar w99 east"]
    assert "dog w3 north" not in found(library, "dog w3 north", semantic=True, limit=99)
    for row in library.videos(limit=99):
        library.remove(row.id)
    assert all(not any(lanes) and not any(bits) for _, _, lanes, bits in signatures_of(library.path))


def test_a_caption_that_is_edited_while_it_is_encoded_gets_no_stale_vector(tmp_path: Path) -> None:
    class Slow(Noise):
        def encode(self, captions: Sequence[str]) -> NDArray[np.float32]:
            if "dog one" in captions:
                Library(path, Noise).edit(1, 0, "guitar two")
            return super().encode(captions)

    path = tmp_path / "library.db"
    library = Library(path, Slow)
    add(library, "dog one")
    library.embed()
    assert library.embed() == 1
    assert found(library, "guitar two", semantic=True) == ["guitar two"]


def test_a_library_of_version_3_gets_the_signatures_that_a_new_one_has(library: Library) -> None:
    library.embed()
    add(library, "dog late", identity="late")  # without a vector when the file is upgraded
    before = found(library, "dog x", semantic=True, limit=99)
    library.remove(21)
    add(library, "dog late", identity="late again")
    wanted = signatures_of(library.path)
    connection = sqlite3.connect(library.path)
    connection.executescript("DROP TABLE signatures; DROP TABLE pending; PRAGMA user_version = 3")
    connection.close()
    upgraded = Library(library.path, Noise)
    assert signatures_of(library.path) == wanted
    assert VERSION == 4
    assert "pending" in FROM_3
    assert found(upgraded, "dog x", semantic=True, limit=99) == before


def test_damaged_signatures_are_left_out_and_made_anew(library: Library) -> None:
    library.embed()
    with library.file.writing() as connection:
        connection.execute("UPDATE signatures SET bits = x'00' WHERE block = 0")
    assert found(library, "dog w19 north", semantic=True, limit=1) == ["dog w19 north"]
    library.edit(1, 0, "dog again")
    assert found(library, "dog again", semantic=True, limit=1) == ["dog again"]


def test_a_process_that_is_killed_leaves_vectors_and_signatures_that_agree(library: Library) -> None:
    script = """
        from tests.test_signatures import Noise
        from watchword.library import signatures
        from watchword.library import library as module
        signatures.BLOCK_SIZE, module.BATCH_SIZE = 64, 50
        def report(done, total):
            if done == 100:
                put = signatures.put
                def stop(*values):
                    put(*values)
                    print("in the middle", flush=True)
                    signal.pause()
                signatures.put = stop
        Library(path, Noise).embed(report)
    """
    process = child(script, library.path)
    assert line_of(process) == "in the middle"
    process.kill()
    process.wait()
    process.communicate()
    with library.file.reading() as connection:
        (vectors,) = connection.execute("SELECT count(*) FROM vectors").fetchone()
        (pending,) = connection.execute("SELECT count(*) FROM pending").fetchone()
    assert (vectors, pending) == (100, 100)
    assert sum(sum(map(bool, lanes)) for _, _, lanes, _ in signatures_of(library.path)) == 100
    assert library.embed() == 100


def test_of_very_many_matches_the_newest_are_ranked(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_module, "NUM_RANKED", 7)
    add(library, "dog", identity="shortest")
    first = found(library, "dog ", limit=3)
    assert first[0] == "dog"
    assert {caption.split()[1] for caption in first[1:]} <= {"w19", "w18", "w17"}
    pages = [caption for offset in range(0, 45, 3) for caption in found(library, "dog ", limit=3, offset=offset)]
    assert len(set(pages)) == len(pages) == library.count_hits("dog ") == 41
    assert pages == found(library, "dog ", limit=99)
