"""A captioner with its eyes: films in, descriptions out."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import overload

from watchword.captioning.bundle import CaptionerFolder, find_captioner
from watchword.captioning.description import Description, Looked, Shot
from watchword.captioning.generation import Stretch, Voice
from watchword.captioning.memory import give_back
from watchword.captioning.merge import join_alike
from watchword.captioning.options import Asked
from watchword.captioning.requirements import choose_captioner, extractor_of, looks_of
from watchword.data.benchmarks import store_path
from watchword.data.dataset import Features
from watchword.errors import unknown
from watchword.features.extraction import Extraction, Job
from watchword.features.store import Store
from watchword.types import Caption, StreamArrays
from watchword.video import read_timeline

GIVE_BACK_EVERY = 16  # stretches: each time costs a seventh of a second, to have the memory again


class Describer:
    """Opened once, it describes film after film. Networks are built when they are first needed."""

    def __init__(self, folder: CaptionerFolder, hint: str = "", store: Path | None = None) -> None:
        self.folder, self.hint, self.store = folder, hint, store

    @classmethod
    def open(cls, name: str | Path | None = None, store: Path | None = None) -> "Describer":
        """A run's folder, a shipped captioner's name, or the best that can work here."""
        if name is None:
            return cls(*choose_captioner(), store)
        return cls(find_captioner(name), "", store)

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def voice(self) -> Voice:
        return Voice.load(self.folder)

    @cached_property
    def extraction(self) -> Extraction:
        return Extraction(Job(Path(), looks_of(self.folder)))

    @overload
    def describe(self, film: list[str]) -> list[Caption]: ...
    @overload
    def describe(
        self,
        film: str | Path,
        *,
        top: int = 1,
        beam: int = 5,
        at_least: float = 0.0,
        timeline: bool | None = None,
    ) -> Description: ...

    def describe(
        self,
        film: str | Path | list[str],
        *,
        top: int = 1,
        beam: int = 5,
        at_least: float = 0.0,
        timeline: bool | None = None,
    ) -> Description | list[Caption]:
        """One sentence for a short film, a timeline for one of more than 40 seconds; `timeline` decides otherwise.

        `top` sentences for each stretch; a stretch whose best sentence is less sure than `at_least` is left out.
        A list names videos of the run's store instead: their captions, as `watchword evaluate` finds them.
        """
        if isinstance(film, list):
            return self._from_store(film)
        path, warnings = Path(film), list[str]()
        seconds = read_timeline(path, warnings.append).end
        shots = self.shots(path, seconds, warnings, Asked(top, beam, timeline))
        sure = (shot for shot in shots if shot.best.confidence >= at_least)
        return Description(path, seconds, self.name, tuple(join_alike(sure)), tuple(dict.fromkeys(warnings)))

    def describe_stored(self, video: str, film: Path | None = None, *, top: int = 1, beam: int = 5) -> Description:
        """A video of the run's store, whole: for streams that were imported or drawn, or to spare the networks.

        `film` is where its pictures are and how long it lasts; without it the last moment is the end.
        """
        recipe, warnings = self.folder.recipe, list[str]()
        store = Store(self.store or store_path(recipe.data))
        for stream in recipe.data.required_streams:
            if not store.has(video, stream):
                raise unknown(f"video with {stream} in {store.folder}", video, store.videos(stream))
        arrays = Features(store, recipe.data).arrays(video)
        if film is not None:
            seconds = read_timeline(film, warnings.append).end
        else:
            seconds = max(float(one.times.max(initial=0)) for one in arrays.values())
        shot = self.speak(Stretch(0.0, seconds, arrays), Asked(top, beam, timeline=False))
        return Description(film or Path(video), seconds, self.name, (shot,), tuple(dict.fromkeys(warnings)))

    def shots(
        self, path: Path, seconds: float, warnings: list[str], asked: Asked, start: float = 0.0
    ) -> Iterator[Shot]:
        """A film described whole, or stretch by stretch from a second on, each given when it is done."""
        names = list(dict.fromkeys(extractor_of(stream) for stream in self.folder.recipe.data.streams))
        # the captioner would leave out the others; layers of a window are several moments: these it chooses itself
        most = self.folder.recipe.data.max_time_steps if "motion_layers" not in names else None
        if not asked.as_timeline(seconds):
            arrays = self.extraction.arrays(path, names, warnings, most)
            yield self.speak(Stretch(0.0, seconds, self._named(arrays)), asked)
            return
        from watchword.captioning.segmentation import cut_film
        from watchword.features.segments import extract_segments

        cutting = cut_film(start, seconds)
        stretches = extract_segments(self.extraction, path, names, cutting, warnings, start, most)
        for number, (begin, end, arrays) in enumerate(stretches):
            yield self.speak(Stretch(begin, end, self._named(arrays)), asked)
            if number % GIVE_BACK_EVERY == 0:
                give_back()

    def speak(self, stretch: Stretch, asked: Asked) -> Shot:
        (thoughts,) = self.voice.think([stretch], asked.beam, asked.top)
        looked = {
            name: Looked(arrays.times + stretch.start, arrays.boxes)
            for name, arrays in self.voice.chosen(stretch).items()
        }
        best, *others = (thought.sentence for thought in thoughts)
        return Shot(stretch.start, stretch.end, (self.voice.with_insight(best, stretch), *others), looked)

    def _named(self, arrays: dict[str, StreamArrays]) -> dict[str, StreamArrays]:
        """Streams by the names that the captioner's recipe has for them."""
        return {stream: arrays[stream.partition("@")[0]] for stream in self.folder.recipe.data.streams}

    def _from_store(self, videos: Sequence[str]) -> list[Caption]:
        from watchword.training.captioner import LoadedCaptioner

        return LoadedCaptioner.load(self.folder.folder, self.store).describe(videos)
