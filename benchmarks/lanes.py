"""The lanes beside the captions: errors against what was said and drawn, CPU seconds a minute, memory of a long video.

    python benchmarks/lanes.py speech [--archive pocketsphinx-5.0.4.tar.gz] [--models whisper_tiny whisper_base]
    python benchmarks/lanes.py text
    python benchmarks/lanes.py sounds
    python benchmarks/lanes.py cost [VIDEO...]
    python benchmarks/lanes.py long [--hours 2]

`speech` needs espeak-ng, which synthesises the sentences; the archive is the source archive of the registry package
pocketsphinx, with ten recordings of people and their transcripts. `sounds` reads the training clips of MSR-VTT with
sound, below WATCHWORD_DATA; their captions are weak truth. Without a VIDEO, `cost` takes 20 of these clips. One thread;
seconds of CPU.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import io
import re
import subprocess
import tarfile
import tempfile
import time
import wave
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from watchword.config import Data
from watchword.data.annotations import read_annotations
from watchword.data.benchmarks import BENCHMARKS, captions_path
from watchword.lanes import LaneOptions, LaneProgress, open_reader
from watchword.lanes.sounds import SoundReader
from watchword.types import Clip, Cue, Lane

RATE = 16_000
FPS = 5
LECTURE_FPS = 25
SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "We are going to the market to buy some bread and milk.",
    "Tomorrow the weather will be sunny with a few clouds in the afternoon.",
    "Please close the window before you leave the house.",
    "My brother works in a large hospital near the river.",
    "The train to the city leaves at half past seven.",
    "She opened the letter slowly and read it twice.",
    "Children learn faster when they play with each other.",
    "The museum shows paintings from the last two hundred years.",
    "Add the onions first and stir them until they are soft.",
)
GERMAN = (
    "Der Zug fährt heute um sieben Uhr in die Stadt.",
    "Meine Schwester arbeitet in einem großen Krankenhaus.",
    "Morgen wird das Wetter schön und die Sonne scheint.",
    "Bitte mach das Fenster zu bevor du gehst.",
)
LINES = ("Welcome to the harbour", "Breaking news: rain tomorrow", "Chapter 3 The long road", "Boil for 12 minutes")

SPOKEN = {"mr": "mister"} | {
    str(number): word
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}

Sound = NDArray[np.float32]
Picture = NDArray[np.uint8]


# --- making videos ---------------------------------------------------------------------------------------------------


def spoken(text: str, accent: str, speed: int = 160) -> Sound:
    words = ["espeak-ng", "-v", accent, "-s", str(speed), "--stdout", text]
    return _samples(subprocess.run(words, capture_output=True, check=True).stdout)


def _samples(content: bytes) -> Sound:
    """A WAV file at 16 kHz, by linear interpolation; espeak-ng's header does not say how long it is."""
    with wave.open(io.BytesIO(content)) as file:
        rate, data = file.getframerate(), file.readframes(1 << 30)
    found = np.frombuffer(data[: len(data) // 2 * 2], "<i2").astype(np.float32) / 32768
    times = np.arange(0, len(found) / rate, 1 / RATE)
    return np.interp(times, np.arange(len(found)) / rate, found).astype(np.float32)


def with_pauses(sounds: Iterable[Sound], seconds: float = 1.5) -> Sound:
    pause = np.zeros(round(seconds * RATE), np.float32)
    return np.concatenate([pause, *(part for sound in sounds for part in (sound, pause))])


def write_video(path: Path, pictures: Iterable[Picture], sound: Sound | None = None, fps: int = FPS) -> Path:
    pictures = iter(pictures)
    first = next(pictures)
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=fps, options={"preset": "ultrafast", "crf": "23"})
        video.width, video.height, video.pix_fmt = first.shape[1], first.shape[0], "yuv420p"
        audio = container.add_stream("aac", rate=RATE) if sound is not None else None
        for picture in chain([first], pictures):
            container.mux(video.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(video.encode(None))
        if audio is not None and sound is not None:
            for begin in range(0, len(sound), 1024):
                frame = av.AudioFrame.from_ndarray(sound[None, begin : begin + 1024], format="fltp", layout="mono")
                frame.sample_rate, frame.pts, frame.time_base = RATE, begin, Fraction(1, RATE)
                container.mux(audio.encode(frame))
            container.mux(audio.encode(None))
    return path


def still(seconds: float, fps: int = FPS) -> Iterator[Picture]:
    for _ in range(max(1, round(seconds * fps))):
        yield np.full((180, 320, 3), 60, np.uint8)


# --- measuring -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    cues: tuple[Cue, ...]
    language: str
    cpu: float
    seconds: float  # of the video

    @property
    def cpu_a_minute(self) -> float:
        return 60 * self.cpu / self.seconds


def measure(lane: Lane, path: Path, options: LaneOptions) -> Measured:
    reader = open_reader(lane, options)
    cpu, progress = time.process_time(), LaneProgress()
    for part in reader.read(path, progress, []):
        progress = progress.with_part(part)
    spent = time.process_time() - cpu
    return Measured(
        progress.all_cues, progress.language.code if progress.language else "-", spent, max(progress.reached, 0.1)
    )


def words_of(text: str) -> list[str]:
    """Without punctuation and case; numbers and `Mr` as they are spoken."""
    plain = "".join(char.lower() if char.isalnum() or char == "'" else " " for char in text)
    return [SPOKEN.get(word, word) for word in plain.split()]


def edits(one: Sequence[str], other: Sequence[str]) -> int:
    """Insertions, deletions and substitutions."""
    row = list(range(len(other) + 1))
    for number, left in enumerate(one, 1):
        before, row[0] = row[0], number
        for place, right in enumerate(other, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (left != right))
    return row[-1]


# --- speech ----------------------------------------------------------------------------------------------------------


def recordings(archive: Path) -> Iterator[tuple[str, Sound, str]]:
    """(set, sound, transcript) of the recordings of people."""
    with tarfile.open(archive) as tar:
        members = {"/".join(member.name.split("/")[3:]): member for member in tar if member.isfile()}

        def content(name: str) -> bytes:
            file = tar.extractfile(members[name])
            assert file is not None
            return file.read()

        for folder, transcripts in (("librivox", "transcription"), ("cards", "cards.transcription")):
            for line in content(f"{folder}/{transcripts}").decode().splitlines():
                text, _, name = line.rpartition("(")
                sound = _samples(content(f"{folder}/{name.rstrip(')')}.wav"))
                yield folder, sound, text.replace("<s>", "").replace("</s>", "").strip()


def speech(models: Sequence[str], archive: Path | None) -> None:
    noise = np.random.default_rng(0)
    sets: dict[str, tuple[Sound, str]] = {}
    if archive is not None:
        found = list(recordings(archive))
        for name in dict.fromkeys(one for one, _, _ in found):
            own = [(sound, text) for folder, sound, text in found if folder == name]
            sets[f"people: {name}"] = with_pauses([sound for sound, _ in own]), " ".join(text for _, text in own)
    for accent in ("en-gb", "en-us", "en-us+f3"):
        sets[f"espeak-ng {accent}"] = with_pauses([spoken(text, accent) for text in SENTENCES]), " ".join(SENTENCES)
    clean = sets["espeak-ng en-us"][0]
    loudness = float(np.sqrt((clean[np.abs(clean) > 0.01] ** 2).mean()))
    for decibel in (20, 10):
        hiss = noise.normal(0, loudness * 10 ** (-decibel / 20), len(clean)).astype(np.float32)
        sets[f"espeak-ng en-us, noise {decibel} dB"] = clean + hiss, " ".join(SENTENCES)
    sets["espeak-ng de"] = with_pauses([spoken(text, "de") for text in GERMAN]), " ".join(GERMAN)
    sets["a minute of silence"] = np.zeros(60 * RATE, np.float32), ""
    time_axis = np.arange(60 * RATE) / RATE
    chord = sum(np.sin(2 * np.pi * hertz * time_axis) for hertz in (220, 277, 330)) / 6
    sets["a minute of chords"] = (chord * (1 + np.sin(2 * np.pi * time_axis)) / 2).astype(np.float32), ""
    print(f"{'set':34}{'model':14}{'language':10}{'words':>6}{'errors':>8}{'WER %':>8}{'CPU s':>8}{'CPU s a min':>13}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (sound, text) in sets.items():
            path = write_video(Path(folder) / "speech.mp4", still(len(sound) / RATE), sound)
            for model in models:
                if name == "espeak-ng de" and model == "whisper_tiny":
                    continue
                done = measure("speech", path, LaneOptions(speech=True, speech_model=model))
                wanted, heard = words_of(text), words_of(" ".join(cue.text for cue in done.cues))
                wrong = edits(wanted, heard)
                rate = f"{100 * wrong / len(wanted):.1f}" if wanted else "-"
                print(
                    f"{name:34}{model:14}{done.language:10}{len(wanted):6}{wrong:8}{rate:>8}{done.cpu:8.1f}"
                    f"{done.cpu_a_minute:13.1f}",
                    flush=True,
                )


# --- text ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawing:
    """Four lines, each for three seconds; `share` of the picture's height is the size of the letters."""

    size: tuple[int, int] = (1280, 720)
    share: float = 1 / 15
    ink: tuple[int, int, int] = (255, 255, 255)
    ground: tuple[int, int, int] = (40, 60, 90)
    motion: str = "still"
    seconds: float = 3.0

    def pictures(self) -> Iterator[Picture]:
        width, height = self.size
        font = ImageFont.load_default(size=max(6, round(self.share * height)))
        noise = np.random.default_rng(0)
        steps = round(self.seconds * FPS)
        for line in LINES:
            for step in range(steps):
                at = step / steps
                ground = Image.new("RGB", self.size, self.ground)
                if self.motion == "busy":
                    blocks = noise.integers(0, 256, (height // 40, width // 40, 3), np.uint8)
                    ground = Image.fromarray(blocks).resize(self.size, Image.Resampling.BICUBIC)
                x, y = 0.1 * width, 0.8 * height
                if self.motion == "up":
                    y = (0.9 - 0.8 * at) * height
                elif self.motion == "sideways":
                    x = (0.3 - 0.25 * at) * width
                edge = {"stroke_width": max(1, round(self.share * height / 12)), "stroke_fill": (0, 0, 0)}
                drawer = ImageDraw.Draw(ground)
                drawer.text((x, y), line, font=font, fill=self.ink, **(edge if self.motion == "busy" else {}))
                yield np.asarray(ground)


def text() -> None:
    plain = Drawing()
    drawings = {"white on blue, 1/15": plain}
    for size in ((1280, 720), (640, 360), (320, 240)):
        for part in (10, 20, 30, 40):
            drawings[f"{size[0]} x {size[1]}, letters 1/{part}"] = replace(plain, size=size, share=1 / part)
    drawings["black on white"] = replace(plain, ink=(0, 0, 0), ground=(255, 255, 255))
    drawings["yellow on grey"] = replace(plain, ink=(255, 230, 0), ground=(128, 128, 128))
    drawings["red on green"] = replace(plain, ink=(200, 30, 30), ground=(30, 120, 30))
    drawings["grey on grey (100 on 128)"] = replace(plain, ink=(100, 100, 100), ground=(128, 128, 128))
    drawings |= {
        f"moving: {motion}" if motion != "busy" else "over a busy picture": replace(plain, motion=motion)
        for motion in ("up", "sideways", "busy")
    }
    print(f"{'drawing':34}{'lines':>6}{'exact':>7}{'cues':>6}{'CER %':>8}{'times off by s':>16}{'CPU s a min':>13}")
    with tempfile.TemporaryDirectory() as folder:
        for name, drawing in drawings.items():
            path = write_video(Path(folder) / "text.mp4", drawing.pictures())
            done = measure("text", path, LaneOptions(text=True))
            exact, wrong, off = 0, 0, []
            for number, line in enumerate(LINES):
                begin, end = number * drawing.seconds, (number + 1) * drawing.seconds
                near = min(done.cues, key=lambda cue: edits(list(line), list(cue.text)), default=None)
                exact += near is not None and near.text == line
                wrong += min(len(line), edits(list(line), list(near.text))) if near else len(line)
                if near is not None and near.text == line:
                    off += [abs(near.start - begin), abs(near.end - end)]
            rate = 100 * wrong / sum(map(len, LINES))
            times = f"{np.mean(off):.2f}" if off else "-"
            print(
                f"{name:34}{len(LINES):6}{exact:7}{len(done.cues):6}{rate:8.1f}{times:>16}{done.cpu_a_minute:13.1f}",
                flush=True,
            )


# --- sounds ----------------------------------------------------------------------------------------------------------

# Words of captions, and the AudioSet classes that say the same. Captions tell what is seen, so a word that is missing
# proves nothing: its clips show how often a tag stands where nobody wrote of it.
SAID_OF_SOUNDS = {
    "speech": (
        r"talk(s|ing|ed)?|speak(s|ing|er)?|speech|explain(s|ing)?|interview\w*|narrat\w*|discuss\w*|news|report\w*",
        "Speech|Conversation|Narration, monologue|Child speech, kid speaking|Speech synthesizer",
    ),
    "music": (
        r"music\w*|sing(s|ing|er|ers)?|songs?|concert|guitar|piano|drum(s|ming|mer)?|band|rap(s|ping|per)?",
        "Music|Singing|Song|Musical instrument|Guitar|Piano|Drum|Drum kit|Choir|Rapping|Pop music|Rock music",
    ),
    "animal": (
        r"dogs?|pupp(y|ies)|cats?|kittens?|birds?|horses?|cows?|pigs?|animals?|chickens?|monkeys?|lions?|sheep",
        "Animal|Dog|Bark|Domestic animals, pets|Cat|Meow|Bird|Horse|Livestock, farm animals, working animals|Pig|Sheep|"
        "Chicken, rooster|Fowl|Wild animals|Roaring cats (lions, tigers)",
    ),
    "vehicle": (
        r"cars?|driv(es|ing|er)|motorcycles?|bikes?|trucks?|trains?|planes?|airplanes?|rac(es|ing)|engine|vehicles?",
        "Vehicle|Car|Motor vehicle (road)|Race car, auto racing|Motorcycle|Truck|Train|Rail transport|Aircraft|Engine|"
        "Accelerating, revving, vroom|Fixed-wing aircraft, airplane|Helicopter",
    ),
}
SOUND_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MIN_WRITERS = 3  # captions of 20 that have one of the words


def training_clips() -> list[tuple[Path, Clip]]:
    """The clips of MSR-VTT's official training split that are no still pictures, in the order of the file."""
    captions = captions_path(Data(benchmark="msrvtt"))
    still = BENCHMARKS["msrvtt"].is_still
    clips = [clip for clip in read_annotations(captions) if clip.split == "train" and not still(clip)]
    return [(clip.path, clip) for clip in clips if clip.path is not None]


def sounds() -> None:
    reader = open_reader("sounds", LaneOptions(sounds=True))
    assert isinstance(reader, SoundReader)
    classes = {name: [reader.names.index(one) for one in tags.split("|")] for name, (_, tags) in SAID_OF_SOUNDS.items()}
    rows: list[tuple[dict[str, int], dict[str, dict[int, float]]]] = []
    for path, clip in training_clips():
        blocks = [one.layers["scores"].numpy() for one in reader.extraction.audio(path, reader.spec, [])]
        scores = np.concatenate(blocks)  # (windows, classes)
        if not len(scores):
            continue
        writers = {
            name: sum(bool(re.search(rf"\b({words})\b", caption.lower())) for caption in clip.captions)
            for name, (words, _) in SAID_OF_SOUNDS.items()
        }
        rows.append((writers, {name: best_scores(scores, group) for name, group in classes.items()}))
    print(f"{len(rows)} clips with sound\n{'tags':>5}{'score':>7}", end="")
    counts = {
        name: [sum(w[name] >= MIN_WRITERS for w, _ in rows), sum(not w[name] for w, _ in rows)] for name in classes
    }
    print("".join(f"{f'{name} {yes}/{no}':>22}" for name, (yes, no) in counts.items()), f"{'mean difference':>17}")
    for tags in (1, 3, 5):
        for threshold in SOUND_THRESHOLDS:
            shares = []
            for name in classes:
                hits = [(writers[name], best[name][tags] >= threshold) for writers, best in rows]
                told = np.mean([hit for number, hit in hits if number >= MIN_WRITERS])
                untold = np.mean([hit for number, hit in hits if not number])
                shares.append((told, untold))
            cells = "".join(f"{f'{100 * told:.0f} % {100 * untold:.0f} %':>22}" for told, untold in shares)
            print(f"{tags:5}{threshold:7.1f}{cells}{100 * np.mean([one - two for one, two in shares]):18.1f}")


def best_scores(scores: NDArray[np.float32], group: Sequence[int]) -> dict[int, float]:
    """By the number of tags at a time: the largest score of one of the group that is among so many."""
    places = (-scores).argsort(1).argsort(1)[:, list(group)]  # (windows, group): 0 is the likeliest class
    own = scores[:, list(group)]
    return {tags: float(np.where(places < tags, own, 0).max()) for tags in (1, 3, 5)}


# --- cost and memory -------------------------------------------------------------------------------------------------


def cost(videos: Sequence[Path]) -> None:
    """CPU seconds a minute of video, each lane alone."""
    lanes: dict[Lane, LaneOptions] = {
        "speech": LaneOptions(speech=True),
        "text": LaneOptions(text=True),
        "sounds": LaneOptions(sounds=True),
    }
    print(f"{'lane':10}{'videos':>8}{'seconds':>9}{'cues':>7}{'CPU s a min':>13}")
    for lane, options in lanes.items():
        done = [measure(lane, path, options) for path in videos]
        seconds = sum(one.seconds for one in done)
        rate = 60 * sum(one.cpu for one in done) / seconds
        print(f"{lane:10}{len(done):8}{seconds:9.0f}{sum(len(one.cues) for one in done):7}{rate:13.1f}", flush=True)


def long(hours: float, model: str) -> None:
    """A lecture at 25 frames a second: a slide every two minutes, a minute of speech every ten."""
    seconds = round(hours * 3600)
    talk = np.resize(with_pauses([spoken(text, "en-us") for text in SENTENCES]), 60 * RATE)
    sound = np.resize(np.concatenate([talk, np.zeros(540 * RATE, np.float32)]), seconds * RATE)

    def slides() -> Iterator[Picture]:
        font = ImageFont.load_default(size=40)
        for number in range(seconds // 120):
            picture = Image.new("RGB", (640, 360), (235, 235, 225))
            ImageDraw.Draw(picture).text((60, 60), f"Slide {number}: {LINES[number % 4]}", font=font, fill=(20, 20, 60))
            pixels = np.asarray(picture)
            for _ in range(120 * LECTURE_FPS):
                yield pixels

    with tempfile.TemporaryDirectory() as folder:
        path = write_video(Path(folder) / "lecture.mp4", slides(), sound, fps=LECTURE_FPS)
        del sound
        print(f"{'lane':10}{'hours':>7}{'cues':>7}{'CPU s':>9}{'CPU s a min':>13}{'MB at start':>13}{'MB at most':>12}")
        for lane, options in (
            ("sounds", LaneOptions(sounds=True)),
            ("text", LaneOptions(text=True)),
            ("speech", LaneOptions(speech=True, speech_model=model)),
        ):
            open_reader(lane, options)
            before = memory()
            peak, done = peak_of(lambda lane=lane, options=options: measure(lane, path, options))
            row = f"{lane:10}{hours:7.2f}{len(done.cues):7}{done.cpu:9.0f}{done.cpu_a_minute:13.2f}"
            print(f"{row}{before:13.0f}{peak:12.0f}", flush=True)


def memory() -> float:
    """Megabytes in use."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1e3 for line in status if line.startswith("VmRSS:"))


def peak_of(work: Callable[[], Measured]) -> tuple[float, Measured]:
    """(megabytes, result): the largest use while it works."""
    Path("/proc/self/clear_refs").write_text("5")  # starts the peak anew
    done = work()
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1e3 for line in status if line.startswith("VmHWM:")), done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speech", "text", "sounds", "cost", "long"))
    parser.add_argument("videos", nargs="*", type=Path)
    parser.add_argument("--archive", type=Path)
    parser.add_argument("--models", nargs="+", default=["whisper_tiny", "whisper_base"])
    parser.add_argument("--hours", type=float, default=2.0)
    chosen = parser.parse_args()
    match chosen.what:
        case "speech":
            speech(chosen.models, chosen.archive)
        case "text":
            text()
        case "sounds":
            sounds()
        case "cost":
            cost(chosen.videos or [path for path, _ in training_clips()[:20]])
        case "long":
            long(chosen.hours, chosen.models[0])


if __name__ == "__main__":
    main()
