"""Everything about the references, computed once: evaluation and rewards share it."""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from watchword.carriers import cache_folder
from watchword.errors import WatchwordError, unknown
from watchword.metrics.bleu import bleu, bleu_statistics
from watchword.metrics.cider import CiderReferences, DocumentFrequencies, frequencies_of, weigh
from watchword.metrics.ngrams import NgramTable, Postings, ReferenceNgrams, Words, index_references, look_up
from watchword.metrics.rouge import RougeReferences
from watchword.text.ptb import Context, tokenise, tokenise_line

if TYPE_CHECKING:
    from watchword.metrics.meteor import MeteorIndex

Floats = NDArray[np.floating[Any]]

METRICS = {  # what a person asks for -> what is reported
    "BLEU": ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4"),
    "METEOR": ("METEOR",),
    "ROUGE_L": ("ROUGE_L",),
    "CIDEr": ("CIDEr",),
}
EOS = "<eos>"  # the end of a sentence as a word, where self-critical code counts it
FORMAT = 1     # of the file in the cache


@dataclass(frozen=True)
class Scores:
    """What a set of hypotheses got, in coco-caption's scale."""

    corpus: dict[str, float]          # Bleu_1 .. Bleu_4, METEOR, ROUGE_L, CIDEr
    videos: tuple[str, ...]
    per_video: dict[str, Floats]      # the same names -> (videos,)
    statistics: dict[str, Floats]     # BLEU (videos, 10), METEOR (videos, 23): their sum gives the corpus score
    signature: dict[str, str]         # how it was computed

    def __str__(self) -> str:
        return " ".join(f"{name} {value:.4f}" for name, value in self.corpus.items())


class ReferenceIndex:
    """The references of many videos, ready to score sentences against.

    `context` is how captions are tokenised: "coco" as coco-caption does it, where the first word of the next caption can
    change the last token of this one; "line" looks at each caption alone. Rewards always look at each sentence alone.
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
        for video, captions in references.items():
            if isinstance(captions, str) or not captions:
                raise WatchwordError(f"video {video!r} needs a list of one reference or more, got {captions!r}")
        if not references:
            raise WatchwordError("there are no references to score against")
        self.videos = tuple(references)
        self.context: Context = context
        self.eos = eos
        self._number = {video: number for number, video in enumerate(self.videos)}
        self._rouge: dict[str, RougeReferences] = {}
        folder = cache_folder("references") if cache is None else cache
        path = folder / f"{_content_hash(references, document_frequencies, context, eos)}.safetensors"
        kept = _load(path)
        if kept is None:
            captions = [caption for sentences in references.values() for caption in sentences]
            self._tokens = _Tokens.of(tokenise(captions, context), [len(each) for each in references.values()])
            split = [[_words(tokens) for tokens in self.tokenised(video)] for video in self.videos]
            words = document_frequencies.table.words if document_frequencies else None
            self._bleu = index_references(split, words)
            self._with_eos = self._bleu
            if eos:
                self._with_eos = index_references([[[*each, EOS] for each in sentences] for sentences in split], words)
            _save(path, self._tokens, self._bleu, self._with_eos if eos else None)
        else:
            self._tokens, self._bleu, self._with_eos = kept
        self.frequencies = document_frequencies or frequencies_of(self._with_eos, "references")
        self._cider: CiderReferences = weigh(self._with_eos, self.frequencies)

    def tokenised(self, video: str) -> list[list[str]]:
        """The references of a video as tokens."""
        return self._tokens.sentences(self._number[video])

    @cached_property
    def _meteor(self) -> "MeteorIndex":
        try:
            from watchword.metrics import meteor
        except ImportError as error:
            raise WatchwordError(NO_METEOR) from error
        if not meteor.available():
            raise WatchwordError(NO_METEOR)
        return meteor.MeteorIndex({video: self.tokenised(video) for video in self.videos})

    def score(self, hypotheses: Mapping[str, str], metrics: Sequence[str] = tuple(METRICS)) -> Scores:
        """Corpus and per-video scores of one sentence per video; every video of the index, in its order."""
        missing = [video for video in self.videos if video not in hypotheses]
        extra = [video for video in hypotheses if video not in self._number]
        if missing or extra:
            raise WatchwordError(mismatch(missing, extra))
        for metric in metrics:
            if metric not in METRICS:
                raise unknown("metric", metric, METRICS)
        tokens = tokenise([hypotheses[video] for video in self.videos], self.context)
        per_video: dict[str, Floats] = {}
        corpus: dict[str, float] = {}
        statistics: dict[str, Floats] = {}
        for metric in (metric for metric in METRICS if metric in metrics):
            if metric == "BLEU":
                statistics[metric] = self._bleu_statistics(self.videos, tokens)
                columns, totals = bleu(statistics[metric]), bleu(statistics[metric].sum(axis=0))
                for column, name in enumerate(METRICS[metric]):
                    per_video[name], corpus[name] = columns[:, column], float(totals[column])
            elif metric == "METEOR":
                rows = [self._meteor.statistics(video, each) for video, each in zip(self.videos, tokens, strict=True)]
                statistics[metric] = np.array(rows)
                per_video[metric] = np.array(self._meteor.segments(self.videos, tokens))
                corpus[metric] = float(self._meteor.corpus(statistics[metric]))
            else:
                per_video[metric] = self._values(metric, self.videos, tokens)
                corpus[metric] = float(per_video[metric].mean())
        return Scores(corpus, self.videos, per_video, statistics, self.signature(metrics))

    def reward(
        self, videos: Sequence[str], sentences: Sequence[Sequence[str]], weights: Mapping[str, float]
    ) -> Floats:
        """Weighted sum of scores for S sentences of each of B videos, (B, S). Names: Bleu_1..4, METEOR, ROUGE_L, CIDEr."""
        each = [video for video, rollouts in zip(videos, sentences, strict=True) for _ in rollouts]
        tokens = [tokenise_line(sentence) for rollouts in sentences for sentence in rollouts]
        for video in videos:
            if video not in self._number:
                raise WatchwordError(f"video {video!r} has no references")
        total = np.zeros(len(each))
        if not each:
            return total.reshape(len(videos), -1)
        for name, weight in weights.items():
            total += weight * self._values(name, each, tokens)
        return total.reshape(len(videos), -1)

    def _values(self, name: str, videos: Sequence[str], tokens: Sequence[Words]) -> Floats:
        """One score for each sentence, (sentences,)."""
        if name == "CIDEr":
            words = [_words(each) for each in tokens]
            if self.eos:
                words = [[*each, EOS] for each in words]
            return self._cider.scores(look_up(self._with_eos, self._numbers(videos), words))
        if name == "ROUGE_L":
            return np.array([self._rouge_of(video).score(each) for video, each in zip(videos, tokens, strict=True)])
        if name == "METEOR":
            return np.array(self._meteor.segments(videos, tokens))
        if name in METRICS["BLEU"]:
            return bleu(self._bleu_statistics(videos, tokens))[:, METRICS["BLEU"].index(name)]
        raise unknown("metric", name, [name for names in METRICS.values() for name in names])

    def _bleu_statistics(self, videos: Sequence[str], tokens: Sequence[Words]) -> Floats:
        words = [_words(each) for each in tokens]
        return bleu_statistics(self._bleu, look_up(self._bleu, self._numbers(videos), words))

    def _numbers(self, videos: Sequence[str]) -> NDArray[np.int64]:
        return np.array([self._number[video] for video in videos], np.int64)

    def _rouge_of(self, video: str) -> RougeReferences:
        if video not in self._rouge:
            self._rouge[video] = RougeReferences(self.tokenised(video))
        return self._rouge[video]

    def signature(self, metrics: Sequence[str] = tuple(METRICS)) -> dict[str, str]:
        """How scores are computed: whoever has the same signature may compare."""
        parts = {
            "tokenizer": f"ptb-3.4.1 {self.context}",
            "videos": str(len(self.videos)),
            "references": str(len(self._bleu.lengths)),
            "CIDEr": f"D, document frequencies of {self.frequencies.source}" + (", eos" if self.eos else ""),
        }
        if "METEOR" in metrics:
            from watchword.metrics import meteor

            parts["METEOR"] = meteor.signature()
        return parts


NO_METEOR = (
    "METEOR needs its tables, and a score without them is not METEOR: pip install 'watchword[meteor]' "
    "or watchword weights get meteor; the other metrics score without"
)


def mismatch(missing: Sequence[str], extra: Sequence[str]) -> str:
    """One line that names the videos on one side only."""
    parts = []
    for videos, what in ((missing, "have no sentence"), (extra, "have no references")):
        if videos:
            more = f" and {len(videos) - 3} more" if len(videos) > 3 else ""
            parts.append(f"{len(videos)} videos {what}: {', '.join(map(repr, videos[:3]))}{more}")
    return "; ".join(parts)


def _words(tokens: Words) -> list[str]:
    """As BLEU and CIDEr split a tokenised caption: at the no-break space inside a phone number too, unlike ROUGE."""
    return " ".join(tokens).split()


@dataclass(frozen=True)
class _Tokens:
    """Tokenised references as three arrays and a list of words."""

    words: list[str]
    flat: NDArray[np.int64]
    starts: NDArray[np.int64]     # (rows + 1,)
    first_row: NDArray[np.int64]  # (videos + 1,)

    @classmethod
    def of(cls, sentences: Sequence[Words], sizes: Sequence[int]) -> "_Tokens":
        numbers: dict[str, int] = {}
        flat = [numbers.setdefault(token, len(numbers)) for sentence in sentences for token in sentence]
        starts = np.cumsum([0] + [len(sentence) for sentence in sentences])
        return cls(list(numbers), np.array(flat, np.int64), starts, np.cumsum([0, *sizes]))

    def sentences(self, video: int) -> list[list[str]]:
        rows = range(self.first_row[video], self.first_row[video + 1])
        return [[self.words[token] for token in self.flat[self.starts[row] : self.starts[row + 1]]] for row in rows]


def _content_hash(
    references: Mapping[str, Sequence[str]], frequencies: DocumentFrequencies | None, context: str, eos: bool
) -> str:
    digest = hashlib.sha256(json.dumps([FORMAT, context, eos, list(references.items())]).encode())
    if frequencies:
        digest.update(json.dumps(list(frequencies.table.words)).encode())
    return digest.hexdigest()[:32]


def _save(path: Path, tokens: _Tokens, ngrams: ReferenceNgrams, with_eos: ReferenceNgrams | None) -> None:
    """Whole or not at all: written under another name and renamed, so two processes may do it at once."""
    from safetensors.numpy import save

    arrays = {"tokens.flat": tokens.flat, "tokens.starts": tokens.starts, "tokens.first_row": tokens.first_row}
    arrays["tokens.words"] = _packed(tokens.words)
    for name, each in (("plain", ngrams), ("eos", with_eos)):
        if each is not None:
            arrays |= {f"{name}.lengths": each.lengths, f"{name}.words": _packed(each.table.words)}
            for order, (keys, postings) in enumerate(zip(each.table.keys, each.postings, strict=True), 1):
                arrays[f"{name}.{order}.keys"] = keys
                arrays |= {f"{name}.{order}.{field}": value for field, value in vars(postings).items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(save(arrays))
        os.replace(scratch, path)
    except OSError:
        return  # an index that cannot be kept is computed again next time


def _load(path: Path) -> tuple[_Tokens, ReferenceNgrams, ReferenceNgrams] | None:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not path.exists():
        return None
    try:
        arrays = load_file(path)
    except (OSError, SafetensorError):
        return None  # damaged: made again
    tokens = _Tokens(
        _unpacked(arrays["tokens.words"]), arrays["tokens.flat"], arrays["tokens.starts"], arrays["tokens.first_row"]
    )

    def ngrams(name: str) -> ReferenceNgrams:
        words = {word: number for number, word in enumerate(_unpacked(arrays[f"{name}.words"]))}
        orders = [order for order in range(1, 10) if f"{name}.{order}.keys" in arrays]
        postings = [
            Postings(**{field: arrays[f"{name}.{order}.{field}"] for field in Postings.__dataclass_fields__})
            for order in orders
        ]
        table = NgramTable(words, tuple(arrays[f"{name}.{order}.keys"] for order in orders))
        return ReferenceNgrams(table, arrays[f"{name}.lengths"], tokens.first_row, tuple(postings))

    plain = ngrams("plain")
    return tokens, plain, ngrams("eos") if "eos.lengths" in arrays else plain


def _packed(words: Sequence[str] | Mapping[str, int]) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(list(words)).encode(), np.uint8)


def _unpacked(array: NDArray[np.uint8]) -> list[str]:
    words: list[str] = json.loads(array.tobytes())
    return words
