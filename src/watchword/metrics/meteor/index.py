"""All references of all videos, indexed once, so that one lookup finds all possible matches of a hypothesis.

The index says where in a video's references each unit (word or phrase) stands. The units related to those of a
hypothesis, looked up there, are its candidate matches with all references at once. Then a bound on the score says
which references can be the best: one to three of twenty need the search of `align`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np

from watchword.errors import WatchwordError, unknown
from watchword.metrics.meteor import score
from watchword.metrics.meteor.align import EXACT, PARAPHRASE, Candidates, align
from watchword.metrics.meteor.arrays import Array, ngram_keys, spread
from watchword.metrics.meteor.normalise import normalise
from watchword.metrics.meteor.score import upper_bounds
from watchword.metrics.meteor.tables import LAYOUT, LONGEST, Tables, load_tables
from watchword.metrics.meteor.words import FACTS, WORD_UNIT, Lexicon, Related

BATCH = 1024  # hypotheses at a time
MOST_PAIRS = 1 << 16  # hypotheses with a reference at a time, unless one hypothesis has more
WORDS_AT_ONCE = 1 << 18  # of references that are indexed at a time, unless one video has more
MOST_CANDIDATES = 20_000_000  # possible matches held at a time: about 2 GB
REMEMBERED = 200_000  # results kept for captions that come again


@dataclass(frozen=True)
class Sentences:
    """Rows of word numbers, flat."""

    word: Array  # (words,)
    starts: Array  # (captions + 1,)
    function_sums: Array  # (words + 1,): function words before each place

    @property
    def lengths(self) -> Array:
        return np.diff(self.starts)


@dataclass(frozen=True)
class Places:
    """Where the units of the references stand."""

    video_starts: Array  # (videos + 1,): references of a video
    reference_starts: Array  # (references + 1,): words of a reference
    function_sums: Array  # (words + 1,)
    unit_keys: Array  # (rows,): video << 32 | unit, sorted
    unit_starts: Array  # (rows + 1,): a row's places are unit_starts[row] .. unit_starts[row + 1]
    reference: Array  # (places,)
    word: Array  # (places,): first word within the reference
    length: Array  # (places,): in words
    phrases: Array  # the phrases among the units


@dataclass(frozen=True)
class Pairs:
    """Hypotheses with each reference of their video. The two sides are hypothesis and reference."""

    hypothesis: Array  # (pairs,)
    starts: Array  # (2, pairs): first word among the words of all captions
    lengths: Array  # (2, pairs)
    function_sums: tuple[Array, Array]


class MeteorIndex:
    """METEOR 1.5 against the references of a set of videos.

    Captions are PTB tokens; METEOR normalises them in its own way once more. Statistics are of the best reference:
    the first with the highest score.
    """

    def __init__(self, references: Mapping[str, Sequence[Sequence[str]]], tables: Tables | None = None) -> None:
        tables = tables or load_tables()
        lexicon = Lexicon(tables.words)
        num_references: list[int] = []

        def lines() -> Iterator[list[str]]:
            for video, sentences in references.items():
                # A repeated reference can never be the first with the highest score. `|||` parts METEOR's references.
                own = dict.fromkeys(part for tokens in sentences for part in " ".join(tokens).split("|||"))
                if not own:
                    raise WatchwordError(f"video {video!r} has no references to score against")
                num_references.append(len(own))
                for line in own:
                    yield normalise(line, tables.words.prefixes)

        words = _sentences(lines(), lexicon)
        places = _places(words, np.append(0, np.cumsum(np.array(num_references, np.int64))), lexicon, tables)
        self._adopt(tables, lexicon, list(references), places)

    def _adopt(self, tables: Tables, lexicon: Lexicon, videos: list[str], places: Places) -> None:
        self._tables, self._lexicon, self._places = tables, lexicon, places
        self._videos = {video: number for number, video in enumerate(videos)}
        self._num_words = len(lexicon.names)  # of the references; hypotheses add theirs
        self._related = Related(tables.phrases, lexicon, places.phrases)
        self._memory: dict[tuple[str, str], tuple[Array, float]] = {}

    def save(self, folder: Path) -> None:
        """Writes the index into a folder: .npy and JSON, all named meteor*."""
        for name, values in vars(self._places).items():
            np.save(folder / f"meteor_{name}.npy", values)
        count = self._num_words
        facts = {name: getattr(self._lexicon, name) for name in FACTS}
        num_senses = facts["sense_starts"][count]
        for name, values in facts.items():
            end = {"sense_starts": count + 1, "senses": num_senses}.get(name, count)
            np.save(folder / f"meteor_word_{name}.npy", values[:end])
        about = {
            "layout": LAYOUT,
            "tables": self._tables.hash,
            "videos": list(self._videos),
            "words": self._lexicon.names[:count],
        }
        (folder / "meteor.json").write_text(json.dumps(about), "utf-8")

    @classmethod
    def load(cls, folder: Path, tables: Tables | None = None) -> Self:
        """An index that `save` wrote; its arrays stay on disk until they are needed."""

        def array(name: str) -> Array:
            return np.load(folder / f"meteor_{name}.npy", mmap_mode="r").view(np.ndarray)

        tables = tables or load_tables()
        try:
            about = json.loads((folder / "meteor.json").read_text("utf-8"))
            if about["layout"] != LAYOUT or about["tables"] != tables.hash:
                raise WatchwordError(f"the METEOR index in {folder} was made from other tables; delete it")
            facts = {name: array(f"word_{name}") for name in FACTS}
            places = Places(**{name: array(name) for name in Places.__dataclass_fields__})
        except (OSError, ValueError, KeyError) as error:
            raise WatchwordError(f"cannot read the METEOR index in {folder}: {error}; delete it") from error
        index = cls.__new__(cls)
        index._adopt(tables, Lexicon.restore(tables.words, about["words"], facts), about["videos"], places)
        return index

    # ------------------------------------------------------------------------------------------------- scores

    def statistics(self, video: str, tokens: Sequence[str]) -> tuple[float, ...]:
        """The 23 statistics of a caption. For many captions `statistics_of` is far quicker."""
        return tuple(self.statistics_of([(video, tokens)])[0].tolist())

    def segment(self, video: str, tokens: Sequence[str]) -> float:
        return float(self.segments([(video, tokens)])[0])

    def statistics_of(self, pairs: Iterable[tuple[str, Sequence[str]]]) -> Array:
        """The statistics of many (video, tokens): (captions, 23)."""
        rows = [row for row, _ in self._results(pairs)]
        return np.array(rows, np.float64).reshape(-1, score.NUM_STATISTICS)

    def segments(self, pairs: Iterable[tuple[str, Sequence[str]]]) -> Array:
        """The scores of many (video, tokens): (captions,)."""
        return np.array([value for _, value in self._results(pairs)], np.float64)

    def corpus(self, statistics: Iterable[Sequence[float]] | Array) -> float:
        """METEOR of a set of captions from their statistics; not the mean of their scores."""
        return score.corpus_score(np.array(list(statistics), np.float64))

    def _results(self, pairs: Iterable[tuple[str, Sequence[str]]]) -> list[tuple[Array, float]]:
        asked = [(video, " ".join(tokens)) for video, tokens in pairs]
        if len(self._memory) > REMEMBERED:
            self._memory.clear()
        new = [key for key in dict.fromkeys(asked) if key not in self._memory]
        for batch in self._batches(new):
            statistics = self._best(batch)
            results = zip(statistics, score.scores(statistics).tolist(), strict=True)
            self._memory.update(zip(batch, results, strict=True))
        return [self._memory[key] for key in asked]

    def _batches(self, asked: Sequence[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
        starts = self._places.video_starts
        batch: list[tuple[str, str]] = []
        num_pairs = 0
        for video, line in asked:
            number = self._videos.get(video, 0)  # one without references is an error of its batch
            more = int(starts[number + 1] - starts[number])
            if batch and (len(batch) == BATCH or num_pairs + more > MOST_PAIRS):
                yield batch
                batch, num_pairs = [], 0
            batch.append((video, line))
            num_pairs += more
        if batch:
            yield batch

    def _best(self, asked: list[tuple[str, str]]) -> Array:
        """Statistics of the best reference of each (video, line): (captions, 23)."""
        for name, _ in asked:
            if name not in self._videos:
                raise unknown("video", name, self._videos)
        prefixes = self._tables.words.prefixes
        # As coco-caption hands a hypothesis to METEOR.
        lines = [normalise(line.replace("|||", "").replace("  ", " "), prefixes) for _, line in asked]
        hypotheses = _sentences(lines, self._lexicon)
        video = np.array([self._videos[name] for name, _ in asked])
        first, reference_starts = self._places.video_starts[video], self._places.reference_starts
        counts = self._places.video_starts[video + 1] - first
        reference, hypothesis = spread(first, counts)
        pairs = Pairs(
            hypothesis,
            starts=np.stack([hypotheses.starts[hypothesis], reference_starts[reference]]),
            lengths=np.stack(
                [hypotheses.lengths[hypothesis], reference_starts[reference + 1] - reference_starts[reference]]
            ),
            function_sums=(hypotheses.function_sums, self._places.function_sums),
        )
        candidates = self._candidates(video, hypotheses, np.cumsum(counts) - counts - first)
        if candidates is not None:
            return _best_references(candidates, pairs)
        if len(asked) > 1:
            half = len(asked) // 2
            return np.concatenate([self._best(asked[:half]), self._best(asked[half:])])
        raise WatchwordError(
            f"METEOR: the caption for video {asked[0][0]!r} ({len(lines[0]):,} words) has more than "
            f"{MOST_CANDIDATES:,} possible matches with the video's references; shorten it"
        )

    def _candidates(self, video: Array, hypotheses: Sentences, pair_offsets: Array) -> Candidates | None:
        """Every possible match of each hypothesis with each reference of its video; None when they are too many."""
        places, related = self._places, self._related
        sentence = np.repeat(np.arange(hypotheses.lengths.size), hypotheses.lengths)
        at, length, unit = _units(hypotheses.word, sentence, self._lexicon, self._tables)
        rows = related.rows(unit)
        first = related.starts[rows]
        relation, source = spread(first, related.starts[rows + 1] - first)
        key = (video[sentence[at]] << 32)[source] | related.unit[relation]
        found = np.searchsorted(places.unit_keys, key)
        found[found == places.unit_keys.size] = 0
        hit = np.flatnonzero(places.unit_keys[found] == key)
        found, relation, source = found[hit], relation[hit], source[hit]
        first = places.unit_starts[found]
        counts = places.unit_starts[found + 1] - first
        if counts.sum() > MOST_CANDIDATES:
            return None
        place, owner = spread(first, counts)
        relation, source = relation[owner], source[owner]
        return Candidates(
            pair=pair_offsets[sentence[at]][source] + places.reference[place],
            reference=places.word[place],
            reference_length=places.length[place],
            hypothesis=(at - hypotheses.starts[sentence[at]])[source],
            hypothesis_length=length[source],
            kind=related.kind[relation],
            rank=related.rank[relation],
        )


def _best_references(candidates: Candidates, pairs: Pairs) -> Array:
    """Statistics of the first reference with the highest score, for each hypothesis."""
    # Captions that are equal word by word are matched so, and in no other way.
    hypothesis_lengths, reference_lengths = pairs.lengths
    diagonal = (candidates.kind == EXACT) & (candidates.hypothesis == candidates.reference)
    same = np.bincount(candidates.pair[diagonal], minlength=hypothesis_lengths.size)
    equal = (hypothesis_lengths == reference_lengths) & (same == hypothesis_lengths)
    candidates = candidates.take(np.flatnonzero((candidates.kind == EXACT) | ~equal[candidates.pair]))

    bounds = upper_bounds(candidates, pairs.starts, pairs.lengths, pairs.function_sums)
    statistics = np.zeros((bounds.size, score.NUM_STATISTICS), np.int64)
    for side, (start, length, sums) in enumerate(zip(pairs.starts, pairs.lengths, pairs.function_sums, strict=True)):
        statistics[:, score.LENGTH + side] = length
        statistics[:, score.FUNCTION + side] = sums[start + length] - sums[start]
    scores = np.zeros(bounds.size)  # a pair that cannot win keeps 0
    first = np.flatnonzero(np.diff(pairs.hypothesis, prepend=-1))
    best = np.zeros(first.size)
    waiting = bounds > 0.0
    for most in (2, bounds.size):  # the two likeliest references first, then those that may still beat them
        chosen = np.flatnonzero(waiting & (bounds >= best[pairs.hypothesis] - 1e-9))
        chosen = chosen[np.lexsort((-bounds[chosen], pairs.hypothesis[chosen]))]
        group = np.flatnonzero(np.diff(pairs.hypothesis[chosen], prepend=-1))
        rank = np.arange(chosen.size) - np.repeat(group, np.diff(group, append=chosen.size))
        chosen = np.sort(chosen[rank < most])
        waiting[chosen] = False
        if chosen.size:
            _search(candidates, pairs, chosen, statistics)
            scores[chosen] = score.scores(statistics[chosen])
            best = np.maximum.reduceat(scores, first)
    winners = np.flatnonzero(scores == best[pairs.hypothesis])
    return statistics[winners[np.flatnonzero(np.diff(pairs.hypothesis[winners], prepend=-1))]]


def _search(candidates: Candidates, pairs: Pairs, chosen: Array, statistics: Array) -> None:
    """Aligns the chosen pairs and fills in their statistics."""
    number = np.full(pairs.hypothesis.size, -1)
    number[chosen] = np.arange(chosen.size)
    own = candidates.take(np.flatnonzero(number[candidates.pair] >= 0))
    own = replace(own, pair=number[own.pair])
    own = own.take(own.order())
    found = align(own, pairs.lengths[1, chosen], pairs.lengths[0, chosen])
    statistics[chosen, score.CHUNKS] = found.chunks
    matches = own.take(found.match)
    pair = chosen[matches.pair]
    module = score.MODULES + 4 * np.minimum(matches.kind, PARAPHRASE).astype(np.int64)
    flat = statistics.reshape(-1)
    for side, first, length in (
        (0, matches.hypothesis, matches.hypothesis_length),
        (1, matches.reference, matches.reference_length),
    ):
        begin = pairs.starts[side, pair] + first
        function = pairs.function_sums[side][begin + length] - pairs.function_sums[side][begin]
        row = pair * score.NUM_STATISTICS + side
        np.add.at(flat, row + module, length - function)
        np.add.at(flat, row + module + 2, function)
        np.add.at(flat, row + score.MATCHED, length)


def _sentences(lines: Iterable[list[str]], lexicon: Lexicon) -> Sentences:
    numbers: list[int] = []
    lengths: list[int] = []
    for line in lines:
        numbers += lexicon.number(line)
        lengths.append(len(line))
    lexicon.learn()
    word = np.array(numbers, np.int32)
    starts = np.append(0, np.cumsum(np.array(lengths, np.int64)))
    return Sentences(word, starts, np.append(0, np.cumsum(lexicon.function[word])).astype(np.int32))


def _places(words: Sentences, video_starts: Array, lexicon: Lexicon, tables: Tables) -> Places:
    """Some videos after the other, so that only what is kept is held of all."""
    sizes = words.lengths
    word_starts = words.starts[video_starts]  # (videos + 1,): the first word of each video
    groups = np.flatnonzero(np.diff(word_starts[:-1] // WORDS_AT_ONCE, prepend=-1))
    keys, counts, phrases = [], [], []
    references, firsts, lengths = [], [], []
    for begin, end in pairwise([*groups.tolist(), video_starts.size - 1]):
        reference = np.arange(video_starts[begin], video_starts[end])
        video = np.repeat(np.arange(begin, end), np.diff(video_starts[begin : end + 1]))
        owner = np.repeat(np.arange(reference.size), sizes[reference])
        at, length, unit = _units(words.word[word_starts[begin] : word_starts[end]], owner, lexicon, tables)
        key = (video[owner[at]] << 32) | unit
        order = np.argsort(key, kind="stable")
        key, at = key[order], at[order]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        keys.append(key[first])
        counts.append(np.diff(first, append=key.size))
        phrases.append(np.unique(unit[unit < WORD_UNIT]))
        of = reference[owner[at]]
        references.append(of.astype(np.int32))
        firsts.append((at + word_starts[begin] - words.starts[of]).astype(np.int32))
        lengths.append(length[order].astype(np.int8))
    return Places(
        video_starts=video_starts,
        reference_starts=words.starts,
        function_sums=words.function_sums,
        unit_keys=np.concatenate(keys),
        unit_starts=np.append(0, np.cumsum(np.concatenate(counts))).astype(np.int32),
        reference=np.concatenate(references),
        word=np.concatenate(firsts),
        length=np.concatenate(lengths),
        phrases=np.unique(np.concatenate(phrases)),
    )


def _units(words: Array, sentence: Array, lexicon: Lexicon, tables: Tables) -> tuple[Array, Array, Array]:
    """Every unit in flat rows of words: first place, length in words, unit. `caption`: the row of each place."""
    ats, lengths, units = [np.arange(words.size)], [np.ones(words.size, np.int64)], [words.astype(np.int64) + WORD_UNIT]
    keys, known = lexicon.keys[words], lexicon.in_tables[words]
    whole = known
    for length in range(1, min(LONGEST, words.size) + 1):
        stop = words.size - length + 1
        whole = whole[:stop] & known[length - 1 :] & (sentence[:stop] == sentence[length - 1 :])
        at = np.flatnonzero(whole)
        phrase = tables.phrases.find(ngram_keys(keys, length)[at])
        at, phrase = at[phrase >= 0], phrase[phrase >= 0]
        ats.append(at)
        lengths.append(np.full(at.size, length))
        units.append(phrase.astype(np.int64))
    return np.concatenate(ats), np.concatenate(lengths), np.concatenate(units)
