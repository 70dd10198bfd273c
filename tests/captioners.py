"""A captioner for tests: a random network with few words, in the folder that a shipped one has."""

import json
from pathlib import Path

import torch

from watchword.config import Recipe, write_toml
from watchword.features.extraction import prepare
from watchword.models import build_model
from watchword.models.checkpoint import save_model
from watchword.text.vocabulary import Vocabulary

WORDS = "a man is the playing guitar and woman dog of running in park with ball on table".split()


def write_captioner(
    folder: Path, seed: int = 0, streams: tuple[str, ...] = ("appearance",), max_time_steps: int = 6
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = Vocabulary(WORDS)
    small = {"name": "soft_attention", "hidden_size": 16, "embedding_size": 8, "attention_size": 8}
    data = {"captions": "captions.jsonl", "store": "features", "streams": streams}
    data |= {"max_words": 8, "max_time_steps": max_time_steps}
    recipe = Recipe.read({"data": data, "model": small}, "test")
    torch.manual_seed(seed)
    widths = {stream: {"audio": 1024}.get(stream, 1280) for stream in streams}
    model = build_model(recipe.model, widths, len(vocabulary))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)  # captions of different videos must differ
    save_model(model, recipe.model, vocabulary, folder / "model.safetensors")
    job = prepare(Path(), streams, ["appearance.time_steps=8"])
    (folder / "streams.json").write_text(json.dumps({stream: job.settings(stream) for stream in streams}))
    (folder / "vocabulary.txt").write_text(vocabulary.text)
    (folder / "recipe.toml").write_text(write_toml(recipe.model_dump()))
    return folder
