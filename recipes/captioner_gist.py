"""Both halves of a `gist` captioner as one run: what guesses meanings, before what speaks of them.

    python recipes/captioner_gist.py runs/captioner_gist ../captioner_meaning ../captioner_data/features runs/gist

The first was trained on the stream `meaning`, the second folder has the guess at it (`recipes/captioner_meaning.py`),
the third the features that the guess reads. What comes out reads features, as any captioner does.
"""

import sys
from pathlib import Path

from watchword.data.dataset import Features
from watchword.features.store import Store
from watchword.models import build_model
from watchword.models.checkpoint import read_tensors
from watchword.training.run import Run


def main(spoken: Run, meanings: Path, features: Path, target: Path) -> None:
    tensors, metadata = read_tensors(meanings / "guess.safetensors")
    streams, speaker = metadata["streams"].split(), spoken.model()
    settings = dict(spoken.recipe.model) | {"examples": len(tensors[f"examples.{streams[0]}"])}
    data = spoken.recipe.data.model_copy(update={"streams": tuple(streams), "store": features, "frame_keep_rate": 1.0})
    seen = Features(Store(features), data)
    model = build_model(settings, seen.widths, len(spoken.vocabulary))
    regression = {f"regression.{name}": tensor for name, tensor in tensors.items()}
    model.load_state_dict(speaker.state_dict() | regression)
    recipe = spoken.recipe.model_copy(update={"data": data, "model": settings})
    run = Run(target)
    run.begin(recipe, spoken.vocabulary, {"streams": seen.described()})
    run.keep_best(model, recipe, spoken.vocabulary)


if __name__ == "__main__":
    main(Run(Path(sys.argv[1])), *(Path(word).resolve() for word in sys.argv[2:5]))
