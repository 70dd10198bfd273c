"""A trained captioner that learns new words: what it knows keeps its weights and its numbers."""

from collections.abc import Sequence
from pathlib import Path

import torch

from watchword.captioning.bundle import CaptionerFolder
from watchword.data.dataset import build_vocabulary
from watchword.models import build_model
from watchword.models.checkpoint import load_model, save_model
from watchword.text.vocabulary import SPECIALS, Vocabulary
from watchword.types import Clip


def grow(captioner: CaptionerFolder, clips: Sequence[Clip], min_count: int, folder: Path) -> Path:
    """A folder to start a training from: the captioner, with rows for the words that only these captions have."""
    known = captioner.vocabulary
    met = build_vocabulary(clips, min_count)
    new = [number for number, word in enumerate(met.words) if word not in known]
    words, content = [*known.words, *(met.words[number] for number in new)], None
    if known.content and met.content:
        content = [*known.content, *(met.content[number] for number in new)][len(SPECIALS) :]
    vocabulary = Vocabulary(words[len(SPECIALS) :], content)
    trained = load_model(captioner.weights[0], known)  # of an ensemble, the first
    settings = captioner.recipe.model
    torch.manual_seed(0)
    model = build_model(settings, trained.widths, len(vocabulary))
    grown = model.state_dict()
    for name, tensor in trained.state_dict().items():
        grown[name][tuple(slice(size) for size in tensor.shape)] = tensor  # whatever is as long as the vocabulary
    folder.mkdir(parents=True, exist_ok=True)
    save_model(model, settings, vocabulary, folder / "model.safetensors")
    (folder / "vocabulary.txt").write_text(vocabulary.text, "utf-8")
    return folder
