"""The best model of a run with the features of its data set."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from watchword.data.annotations import video_path
from watchword.data.benchmarks import captions_path, store_path
from watchword.data.dataset import Features, encode_captions, pad_captions
from watchword.decoding import teacher_force
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
        """A caption for each video of the store, and where each of its words looked: attention (T, F, N) a stream."""
        self.features.check(videos)
        search = Search(beam, length_power, self.run.recipe.data.max_words)
        return caption_videos(self.model, self.features, videos, self.vocabulary, search, keep_attention=True)

    @torch.no_grad()
    def teacher_force(self, clips: Sequence[Clip]) -> list[Caption]:
        """Attention and log probability of the reference captions of clips."""
        self.features.check([clip.video for clip in clips])
        found = []
        for clip in clips:
            said = encode_captions(clip.captions, self.vocabulary, self.run.recipe.data.max_words)
            captions = pad_captions([said])[:, :, 1:]  # (1, S, T), without BOS
            forced = teacher_force(self.model.eval(), self.features.read([clip.video]), captions, keep_attention=True)
            likely = self.model.log_probabilities(forced.outputs).gather(-1, captions.unsqueeze(-1))[0, ..., 0]
            for row, caption in enumerate(captions[0].tolist()):
                words = tuple(self.vocabulary.decode(caption))
                looked = {name: weights[0, row, : len(words)].numpy() for name, weights in forced.attention.items()}
                found.append(Caption(clip.video, words, float(likely[row, : len(said[row]) - 1].sum()), looked))
        return found

    def video_path(self, video: str, videos: Path | None = None) -> Path:
        """The file of a clip of its data set; `videos` as in `data.annotations.video_path`."""
        return video_path(video, captions_path(self.run.recipe.data), videos)
