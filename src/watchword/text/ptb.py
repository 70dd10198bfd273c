"""The Penn Treebank tokenizer as coco-caption runs it."""

import re
from collections.abc import Sequence
from typing import Literal

Context = Literal["coco", "line"]

_SIMPLE = re.compile(r"n't\b|\w+(?:[-'/.]\w+)*?(?=n't\b)|'(?:s|ll|re|ve|m|d)\b|\w+(?:[-/.]\w+)*|\S")
PUNCTUATION = frozenset("'' ' `` ` -LRB- -RRB- -LCB- -RCB- . ? ! , : - -- ... ;".split())


def ptb_tokens(captions: Sequence[str], context: Context = "coco") -> list[list[str]]:
    return [_SIMPLE.findall(caption.lower()) for caption in captions]


def tokenise(captions: Sequence[str], context: Context = "coco") -> list[list[str]]:
    return [[token for token in tokens if token not in PUNCTUATION] for tokens in ptb_tokens(captions, context)]


def tokenise_line(caption: str) -> list[str]:
    return tokenise([caption], "line")[0]
