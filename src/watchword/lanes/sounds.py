"""Sounds: the AudioSet classes that YAMNet gives to windows of 0.975 s, every 0.48 s."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from watchword.backbones.audio import SAMPLE_RATE
from watchword.features.extraction import Extraction, prepare
from watchword.features.networks import AUDIO_BACKBONES
from watchword.features.specs import AudioSpec
from watchword.lanes.reading import LanePart, LaneProgress
from watchword.lanes.tracking import CueTracker, Sighting
from watchword.types import Cue

MIN_SCORE = 0.5
MAX_TAGS = 3  # at a time
GAP = 1.5  # seconds that a sound may be missed
NOT_A_SOUND = frozenset({"Silence"})


class SoundReader:
    """Tags of the sound as cues."""

    def __init__(self) -> None:
        self.extraction = Extraction(prepare(Path(), ["audio"]))
        spec = self.extraction.job.specs["audio"]
        assert isinstance(spec, AudioSpec)
        self.spec = spec
        network: Any = self.extraction.networks.get(AUDIO_BACKBONES, spec.backbone, spec.weights)
        self.names: tuple[str, ...] = network.class_names
        self.step = network.mel.step_samples / SAMPLE_RATE  # seconds from window to window

    def read(self, path: Path, progress: LaneProgress, warnings: list[str]) -> Iterator[LanePart]:
        tags = CueTracker(GAP)
        tags.resume(progress.open_cues, progress.reached)
        reached = progress.reached
        for extracted in self.extraction.audio(path, self.spec, warnings, progress.reached):
            ended: list[Cue] = []
            scores = extracted.layers["scores"].numpy()  # (F, classes)
            for time, row in zip(extracted.times.tolist(), scores, strict=True):
                begin = time - self.step / 2
                if begin >= progress.reached - 1e-6:
                    likely = [number for number in np.argsort(-row)[:MAX_TAGS].tolist() if row[number] >= MIN_SCORE]
                    tags_now = [Sighting(self.names[number], float(row[number])) for number in likely]
                    ended += tags.see(begin, [tag for tag in tags_now if tag.text not in NOT_A_SOUND])
                    reached = time + self.step / 2
            yield LanePart(reached, tuple(ended), tags.open_cues(reached))
        yield LanePart(reached, tags.finish(reached))
