"""Everything about the references, computed once and kept on disk: evaluation and rewards share it."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from watchword.downloads import cache_folder
from watchword.errors import WatchwordError, unknown
from watchword.metrics.coco import (
    CiderReferences,
    DocumentFrequencies,
    RougeReferences,
    bleu,
    bleu_statistics,
    frequencies_of,
    weigh,
)
from watchword.metrics.ngrams import (
    ORDERS,
    Integers,
    NgramTable,
    Postings,
    ReferenceNgrams,
    Words,
    index_numbers,
    look_up,
    narrow,
)
from watchword.text.ptb import Context, tokenise, tokenise_line

if TYPE_CHECKING:
    from watchword.metrics.meteor import MeteorIndex

Floats = NDArray[np.floating[Any]]

METRICS = {  # what a person asks for -> what is reported, as coco-caption names it
    "BLEU": ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4"),
    "METEOR": ("METEOR",),
    "ROUGE_L": ("ROUGE_L",),
    "CIDEr": ("CIDEr",),
}
EOS = "<eos>"  # the end of a caption as a word, where self-critical code counts it
FORMAT = 2  # of the files in the cache and of the tokenizer: another number makes them anew

NO_METEOR = (
    "METEOR needs its tables, and a score without them is not METEOR: pip install 'watchword[meteor]' "
    "or watchword weights get meteor"
)


def meteor_available() -> bool:
    """Whether METEOR can be computed here: its tables are on this machine."""
    try:
        from watchword.metrics import meteor
    except ImportError:
        return False
    return meteor.available()


@dataclass(frozen=True)
class Scores:
    """What a set of hypotheses got, in coco-caption's scale: 0 to 1, CIDEr 0 to 10."""

    corpus: dict[str, float]  # Bleu_1 .. Bleu_4, METEOR, ROUGE_L, CIDEr
    videos: tuple[str, ...]
    per_video: dict[str, Floats]  # the same names -> (videos,)
    statistics: dict[str, Floats]  # BLEU (videos, 10), METEOR (videos, 23): what their corpus scores are made of
    signature: dict[str, str]  # how it was computed: who has the same may compare

    def of(self, video: str) -> dict[str, float]:
        """The scores of one video."""
        row = self.videos.index(video)
        return {name: float(values[row]) for name, values in self.per_video.items()}

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.4f}" for name, value in self.corpus.items())


class ReferenceIndex:
    """The references of many videos, ready to score captions against.

    `context` is how captions are tokenised: "coco" as coco-caption does it, where the first word of the next caption
    can change the last token of this one; "line" tokenises each caption alone, and so do rewards.
    `eos` counts the end of a caption as a word in CIDEr-D, as self-critical code often does: recorded in signatures.
    """

    def __init__(
        self,
        references: Mapping[str, Sequence[str]],
        document_frequencies: DocumentFrequencies | None = None,
        *,
        context: Context = "coco",
        eos: bool = False,
        cache: Path | None = None,
    ) -> None:
        if not references:
            raise WatchwordError("there are no references to score against")
        for video, captions in references.items():
            if isinstance(captions, str) or not captions:
                raise WatchwordError(f"video {video!r} needs a list of one reference or more, got {captions!r}")
        self.videos = tuple(references)
        self.context: Context = context
        self.eos = eos
        self._number = {video: number for number, video in enumerate(self.videos)}
        self._rouge: dict[str, RougeReferences] = {}
        self._folder = cache or cache_folder("references")
        self._key = _content_hash(references, document_frequencies, context, eos)
        path = self._folder / f"{self._key}.npz"
        kept = _load(path)
        if kept is None:
            captions = [caption for sentences in references.values() for caption in sentences]
            tokens = _Tokens.of(tokenise(captions, context), [len(each) for each in references.values()])
            kept = _Kept.of(tokens, eos, document_frequencies)
            _save(path, kept)
        self._kept = kept
        self.frequencies = document_frequencies or frequencies_of(kept.with_eos, "the references")
        self._cider: CiderReferences = weigh(kept.with_eos, self.frequencies)

    def tokenised(self, video: str) -> list[list[str]]:
        """The references of a video as tokens."""
        return self._kept.tokens.sentences(self._number[video])

    def score(self, hypotheses: Mapping[str, str], metrics: Sequence[str] | None = None) -> Scores:
        """Corpus and per-video scores of one caption for every video.

        `metrics` are keys of METRICS; None is all that can be computed here, so METEOR only where its tables are.
        """
        missing = [video for video in self.videos if video not in hypotheses]
        extra = [video for video in hypotheses if video not in self._number]
        if missing or extra:
            raise WatchwordError(mismatch(missing, extra))
        for metric in metrics or ():
            if metric not in METRICS:
                raise unknown("metric", metric, METRICS)
        if metrics is None:
            metrics = [metric for metric in METRICS if metric != "METEOR" or meteor_available()]
        tokens = tokenise([hypotheses[video] for video in self.videos], self.context)
        per_video: dict[str, Floats] = {}
        corpus: dict[str, float] = {}
        statistics: dict[str, Floats] = {}
        for metric in (metric for metric in METRICS if metric in metrics):
            if metric == "BLEU":
                rows = self._bleu_statistics(self.videos, tokens)
                totals = bleu(rows.sum(axis=0))
                for name, values, total in zip(METRICS[metric], bleu(rows).T, totals, strict=True):
                    per_video[name], corpus[name] = values, float(total)
                statistics[metric] = rows
            elif metric == "METEOR":
                pairs = list(zip(self.videos, tokens, strict=True))
                statistics[metric] = self._meteor.statistics_of(pairs)
                per_video[metric] = self._meteor.segments(pairs)
                corpus[metric] = self._meteor.corpus(statistics[metric])
            else:
                per_video[metric] = self._values(metric, self.videos, tokens)
                corpus[metric] = float(per_video[metric].mean())
        return Scores(corpus, self.videos, per_video, statistics, self.signature(metrics))

    def reward(
        self,
        videos: Sequence[str],
        sentences: Sequence[Sequence[str]],
        weights: Mapping[str, float],
        ended: Sequence[Sequence[bool]] | None = None,
    ) -> Floats:
        """For S captions of each of B videos the weighted sum of their scores, (B, S).

        Names are those that are reported: Bleu_1 .. Bleu_4, METEOR (of the segment), ROUGE_L, CIDEr. `ended` says which
        captions came to their end (all, if not given): with `eos` only these have it as their last word.
        """
        for video in videos:
            if video not in self._number:
                raise WatchwordError(f"video {video!r} has no references")
        each = [video for video, rollouts in zip(videos, sentences, strict=True) for _ in rollouts]
        tokens = [tokenise_line(sentence) for rollouts in sentences for sentence in rollouts]
        ends = None if ended is None else [end for own in ended for end in own]
        total = np.zeros(len(each))
        for name, weight in weights.items():
            total += weight * self._values(name, each, tokens, ends, keep=True)
        return total.reshape(len(videos), -1) if each else np.zeros((len(videos), 0))

    def signature(self, metrics: Sequence[str] = tuple(METRICS)) -> dict[str, str]:
        """How scores are computed."""
        parts = {
            "tokenizer": f"PTB 3.4.1, context {self.context}",
            "videos": str(len(self.videos)),
            "references": str(len(self._kept.plain.lengths)),
        }
        if "CIDEr" in metrics:
            parts["CIDEr"] = f"D, document frequencies of {self.frequencies.source}" + (", eos" if self.eos else "")
        if "METEOR" in metrics and meteor_available():
            from watchword.metrics import meteor

            parts["METEOR"] = f"1.5, tables {meteor.table_hash()[:12]}"
        return parts

    def _values(
        self,
        name: str,
        videos: Sequence[str],
        tokens: Sequence[Words],
        ended: Sequence[bool] | None = None,
        *,
        keep: bool = False,
    ) -> Floats:
        """One score for each caption, (captions,). `keep`: more captions of these videos follow."""
        if name == "CIDEr":
            words = [_words(each) for each in tokens]
            if self.eos:
                ends = ended or [True] * len(words)
                words = [[*each, EOS] if end else each for each, end in zip(words, ends, strict=True)]
            return self._cider.scores(look_up(self._kept.with_eos, self._numbers(videos), words))
        if name == "ROUGE_L":
            return np.array(
                [self._rouge_of(video, keep).score(each) for video, each in zip(videos, tokens, strict=True)]
            )
        if name == "METEOR":
            return self._meteor.segments(zip(videos, tokens, strict=True))
        if name in METRICS["BLEU"]:
            return bleu(self._bleu_statistics(videos, tokens))[:, METRICS["BLEU"].index(name)]
        raise unknown("metric", name, [name for names in METRICS.values() for name in names])

    def _bleu_statistics(self, videos: Sequence[str], tokens: Sequence[Words]) -> Floats:
        plain = self._kept.plain
        return bleu_statistics(plain, look_up(plain, self._numbers(videos), [_words(each) for each in tokens]))

    def _numbers(self, videos: Sequence[str]) -> NDArray[np.int64]:
        return np.array([self._number[video] for video in videos], np.int64)

    def _rouge_of(self, video: str, keep: bool) -> RougeReferences:
        found = self._rouge.get(video) or RougeReferences(self.tokenised(video))
        if keep:
            self._rouge[video] = found
        return found

    @cached_property
    def _meteor(self) -> "MeteorIndex":
        """METEOR's own index, kept beside ours: tokens and tables make it."""
        if not meteor_available():
            raise WatchwordError(NO_METEOR)
        from watchword.metrics import meteor

        folder = self._folder / f"{self._key}-meteor-{meteor.table_hash()[:16]}"
        if folder.is_dir():
            try:
                return meteor.MeteorIndex.load(folder)
            except WatchwordError:  # damaged or of another layout: made again
                shutil.rmtree(folder, ignore_errors=True)
        index = meteor.MeteorIndex(_Tokenised(self))
        # an index that cannot be kept is computed again next time; one that is there by now is a quicker process's
        with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=self._folder, suffix=".part") as scratch:
            made = Path(scratch) / "index"
            made.mkdir()
            index.save(made)
            made.replace(folder)
        return index


class _Tokenised(Mapping[str, list[list[str]]]):
    """The references of an index as tokens, made for one video at a time."""

    def __init__(self, index: ReferenceIndex) -> None:
        self.index = index

    def __getitem__(self, video: str) -> list[list[str]]:
        return self.index.tokenised(video)

    def __iter__(self) -> Iterator[str]:
        return iter(self.index.videos)

    def __len__(self) -> int:
        return len(self.index.videos)


def mismatch(missing: Sequence[str], extra: Sequence[str]) -> str:
    """One line that names the videos that are on one side only."""
    parts = []
    for videos, what in ((missing, "no caption"), (extra, "no references")):
        if videos:
            more = f" and {len(videos) - 3} more" if len(videos) > 3 else ""
            parts.append(f"{what} for {', '.join(map(repr, videos[:3]))}{more}")
    return "; ".join(parts)


def _words(tokens: Words) -> list[str]:
    """As BLEU and CIDEr split a tokenised caption: at the no-break space inside a phone number too, unlike ROUGE."""
    return " ".join(tokens).split()


@dataclass(frozen=True)
class _Tokens:
    """Tokenised references: numbers of tokens, one reference after the other."""

    names: list[str]  # as they first come
    flat: Integers
    starts: Integers  # (rows + 1,)
    first_row: Integers  # (videos + 1,)

    @classmethod
    def of(cls, sentences: Sequence[Words], sizes: Sequence[int]) -> "_Tokens":
        numbers: dict[str, int] = {}
        flat = [numbers.setdefault(token, len(numbers)) for sentence in sentences for token in sentence]
        starts = np.cumsum([0, *(len(sentence) for sentence in sentences)])
        return cls(list(numbers), narrow(np.array(flat, np.int64)), narrow(starts), np.cumsum([0, *sizes]))

    def sentences(self, video: int) -> list[list[str]]:
        starts = self.starts[self.first_row[video] : self.first_row[video + 1] + 1].tolist()
        names = [self.names[number] for number in self.flat[starts[0] : starts[-1]].tolist()]
        return [names[a - starts[0] : b - starts[0]] for a, b in pairwise(starts)]

    def ngrams(self, known: Mapping[str, int] | None, eos: bool) -> ReferenceNgrams:
        """Words of `known` keep their numbers, others are numbered as they come. `eos`: each caption ends in it."""
        words: dict[str, int] = dict(known or {})
        first = int(self.flat[: self.starts[1]].max(initial=-1)) + 1  # tokens of the first caption: its end comes next
        parts = [[words.setdefault(word, len(words)) for word in _words([name])] for name in self.names[:first]]
        end = words.setdefault(EOS, len(words)) if eos else 0
        parts += [[words.setdefault(word, len(words)) for word in _words([name])] for name in self.names[first:]]
        sizes = np.array([len(part) for part in parts], np.int64)
        counts = sizes[self.flat]  # words of each token: nearly always one
        stops = np.append(0, np.cumsum(counts))
        place = np.arange(stops[-1]) + np.repeat((np.cumsum(sizes) - sizes)[self.flat] - stops[:-1], counts)
        flat = np.array([number for part in parts for number in part], np.int64)[place]
        ends = stops[self.starts]
        lengths = np.diff(ends)
        if eos:
            flat, lengths = np.insert(flat, ends[1:], end), lengths + 1
        return index_numbers(flat, lengths, self.first_row, words)


@dataclass(frozen=True)
class _Kept:
    """What of the references is worth a file."""

    tokens: _Tokens
    plain: ReferenceNgrams
    with_eos: ReferenceNgrams  # the same object where the end of a caption is no word

    @classmethod
    def of(cls, tokens: _Tokens, eos: bool, frequencies: DocumentFrequencies | None) -> "_Kept":
        known = frequencies.table.words if frequencies else None
        plain = tokens.ngrams(known, eos=False)
        return cls(tokens, plain, tokens.ngrams(known, eos=True) if eos else plain)


def _content_hash(
    references: Mapping[str, Sequence[str]], frequencies: DocumentFrequencies | None, context: str, eos: bool
) -> str:
    digest = hashlib.sha256(json.dumps([FORMAT, context, eos, list(references.items())]).encode())
    if frequencies:
        digest.update(json.dumps(list(frequencies.table.words)).encode())  # words keep the numbers that they have there
    return digest.hexdigest()[:32]


def _save(path: Path, kept: _Kept) -> None:
    """Whole or not at all: written under another name and renamed, so two processes may do it at once."""
    tokens = kept.tokens
    arrays: dict[str, NDArray[Any]] = {"tokens.names": _packed(tokens.names), "tokens.flat": tokens.flat}
    arrays |= {"tokens.starts": tokens.starts, "tokens.first_row": tokens.first_row}
    for name, ngrams in {"plain": kept.plain, "with_eos": kept.with_eos}.items():
        if name == "plain" or ngrams is not kept.plain:
            arrays |= {f"{name}.lengths": ngrams.lengths, f"{name}.words": _packed(list(ngrams.table.words))}
            for order, (keys, postings) in enumerate(zip(ngrams.table.keys, ngrams.postings, strict=True)):
                arrays[f"{name}.{order}.keys"] = keys
                arrays |= {f"{name}.{order}.{field}": value for field, value in vars(postings).items()}
    with contextlib.suppress(OSError):  # an index that cannot be kept is computed again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # a piece at a time: no copy of all
        os.replace(scratch, path)


def _load(path: Path) -> _Kept | None:
    """What was kept, None where there is nothing or it is damaged: then it is made again."""

    def ngrams(name: str) -> ReferenceNgrams:
        words = {word: number for number, word in enumerate(_unpacked(arrays[f"{name}.words"]))}
        fields = list(Postings.__dataclass_fields__)
        postings = [
            Postings(**{field: arrays[f"{name}.{order}.{field}"] for field in fields}) for order in range(ORDERS)
        ]
        table = NgramTable(words, tuple(arrays[f"{name}.{order}.keys"] for order in range(ORDERS)))
        return ReferenceNgrams(table, arrays[f"{name}.lengths"], arrays["tokens.first_row"], tuple(postings))

    if not path.exists():
        return None
    try:
        with np.load(path) as file:
            arrays = dict(file)
        names = _unpacked(arrays["tokens.names"])
        tokens = _Tokens(names, arrays["tokens.flat"], arrays["tokens.starts"], arrays["tokens.first_row"])
        plain = ngrams("plain")
        return _Kept(tokens, plain, ngrams("with_eos") if "with_eos.lengths" in arrays else plain)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def _packed(words: list[str]) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(words).encode(), np.uint8)


def _unpacked(array: NDArray[np.uint8]) -> list[str]:
    words: list[str] = json.loads(array.tobytes())
    return words
