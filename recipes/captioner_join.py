"""Joins the two halves of an `embedding_conditioned` captioner into one run.

    python recipes/captioner_join.py runs/captioner_embedding embeddings features runs/whole

The first argument is the run that was trained on sentence embeddings, the second the folder of the regression
(`recipes/captioner_embeddings.py`), the third the store of the features that the regression reads.
"""

import sys
from pathlib import Path

from watchword.data.dataset import Features
from watchword.features.store import Store
from watchword.models import build_model
from watchword.models.checkpoint import read_tensors
from watchword.training.run import Run


def main(decoder: Run, embeddings: Path, features: Path, target: Path) -> None:
    tensors, metadata = read_tensors(embeddings / "regression.safetensors")
    streams = metadata["streams"].split()
    settings = dict(decoder.recipe.model) | {"examples": len(tensors[f"examples.{streams[0]}"])}
    data = decoder.recipe.data.model_copy(update={"streams": tuple(streams), "store": features, "frame_keep_rate": 1.0})
    seen = Features(Store(features), data)
    model = build_model(settings, seen.widths, len(decoder.vocabulary))
    regression = {f"regression.{name}": tensor for name, tensor in tensors.items()}
    model.load_state_dict(decoder.model().state_dict() | regression)
    recipe = decoder.recipe.model_copy(update={"data": data, "model": settings})
    run = Run(target)
    run.begin(recipe, decoder.vocabulary, {"streams": seen.described()})
    run.keep_best(model, recipe, decoder.vocabulary)


if __name__ == "__main__":
    main(Run(Path(sys.argv[1])), *(Path(word).resolve() for word in sys.argv[2:5]))
