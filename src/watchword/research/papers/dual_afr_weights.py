"""How deep a captioner that attends to layers looked for each word that it said."""

from collections.abc import Sequence

import numpy as np
import torch

from watchword.data.dataset import Features
from watchword.errors import WatchwordError
from watchword.models import Captioner
from watchword.models.dual_afr import DualAFR
from watchword.tensors import PAD
from watchword.text.vocabulary import Vocabulary
from watchword.types import Caption, FloatArray

VIDEOS_AT_ONCE = 32


@torch.no_grad()
def layer_weights(
    model: Captioner, features: Features, captions: Sequence[Caption], vocabulary: Vocabulary
) -> list[FloatArray]:
    """Of each caption its words' weights of the layers, (T, L); 0 for the first word, which is said of the whole."""
    if not isinstance(model, DualAFR) or len(model.layers) < 2:
        raise WatchwordError("layers are chosen by the model dual_afr, in a variant that has several: soft, hard, ...")
    model.eval()
    found: list[FloatArray] = []
    for start in range(0, len(captions), VIDEOS_AT_ONCE):
        some = captions[start : start + VIDEOS_AT_ONCE]
        sentences = torch.full((len(some), 1, max(1, *(len(caption.words) for caption in some))), PAD)
        for row, caption in enumerate(some):
            sentences[row, 0, : len(caption.words)] = torch.tensor(vocabulary.encode(caption.words))
        weights = model.layer_weights(features.read([caption.video for caption in some]), sentences)
        found += [np.asarray(weights[row, 0, : len(caption.words)]) for row, caption in enumerate(some)]
    return found
