"""A trained captioner in memory: what `watchword.load` returns."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from watchword.data.dataset import Features
from watchword.data.films import film_of
from watchword.models import Captioner
from watchword.records import Caption
from watchword.store import Store
from watchword.text.vocabulary import Vocabulary
from watchword.training.evaluation import Search, caption_videos
from watchword.training.run import Run


@dataclass(frozen=True)
class LoadedCaptioner:
    """The best weights of a run, and the features they read."""

    run: Run
    model: Captioner
    vocabulary: Vocabulary
    features: Features

    @classmethod
    def load(cls, folder: Path, store: Path | None = None) -> "LoadedCaptioner":
        """`store`: features from elsewhere than where the run was trained."""
        run = Run(folder)
        settings = run.recipe.data
        return cls(run, run.model(), run.vocabulary, Features(Store(store or settings.store), settings))

    def describe(self, videos: Sequence[str], beam: int = 5, length_power: float = 0.5) -> list[Caption]:
        """A sentence for each video of the store, and where each of its words looked: attention (T, F, N) a stream."""
        self.features.check(videos)
        search = Search(beam, length_power, self.run.recipe.data.max_words)
        return caption_videos(self.model, self.features, videos, self.vocabulary, search, keep_attention=True)

    def film(self, video: str, films: Path | None = None) -> Path:
        """The film of a video of its data set, for pictures of what was looked at; `films` as `film_of` has it."""
        return film_of(video, self.run.recipe.data.captions, films)
