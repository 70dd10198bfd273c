"""A trained captioner in memory: what `watchword.load` returns."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from watchword.data.benchmarks import captions_path, store_path
from watchword.data.dataset import Features, encode_captions, pad_sentences
from watchword.data.films import film_of
from watchword.decoding import follow
from watchword.features.store import Store
from watchword.models import Captioner
from watchword.text.vocabulary import Vocabulary
from watchword.training.evaluation import Search, caption_videos
from watchword.training.run import Run
from watchword.types import Caption, Clip


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
        return cls(run, run.model(), run.vocabulary, Features(Store(store or store_path(settings)), settings))

    def describe(self, videos: Sequence[str], beam: int = 5, length_power: float = 0.5) -> list[Caption]:
        """A sentence for each video of the store, and where each of its words looked: attention (T, F, N) a stream."""
        self.features.check(videos)
        search = Search(beam, length_power, self.run.recipe.data.max_words)
        return caption_videos(self.model, self.features, videos, self.vocabulary, search, keep_attention=True)

    @torch.no_grad()
    def follow(self, clips: Sequence[Clip]) -> list[Caption]:
        """Every caption that people said, as if the captioner had: where it looks for each word, how likely it is."""
        self.features.check([clip.video for clip in clips])
        found = []
        for clip in clips:
            said = encode_captions(clip.captions, self.vocabulary, self.run.recipe.data.max_words)
            sentences = pad_sentences([said])[:, :, 1:]  # (1, S, T), without BOS
            followed = follow(self.model.eval(), self.features.read([clip.video]), sentences, keep_attention=True)
            likely = self.model.log_probabilities(followed.outputs).gather(-1, sentences.unsqueeze(-1))[0, ..., 0]
            for row, sentence in enumerate(sentences[0].tolist()):
                words = tuple(self.vocabulary.decode(sentence))
                looked = {name: weights[0, row, : len(words)].numpy() for name, weights in followed.attention.items()}
                found.append(Caption(clip.video, words, float(likely[row, : len(said[row]) - 1].sum()), looked))
        return found

    def film(self, video: str, films: Path | None = None) -> Path:
        """The film of a video of its data set, for pictures of what was looked at; `films` as `film_of` has it."""
        return film_of(video, captions_path(self.run.recipe.data), films)
