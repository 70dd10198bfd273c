"""BLEU, METEOR, ROUGE-L and CIDEr-D as coco-caption computes them: numpy, no torch, no Java."""

from watchword.metrics.coco import DocumentFrequencies, document_frequencies
from watchword.metrics.index import METRICS, NO_METEOR, ReferenceIndex, Scores, meteor_available
from watchword.text.ptb import ptb_tokens, tokenise, tokenise_line

__all__ = [
    "METRICS",
    "NO_METEOR",
    "DocumentFrequencies",
    "ReferenceIndex",
    "Scores",
    "document_frequencies",
    "meteor_available",
    "ptb_tokens",
    "tokenise",
    "tokenise_line",
]
