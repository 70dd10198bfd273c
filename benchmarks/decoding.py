"""How cheap is sampling frames? CPU milliseconds for 28 frames of a 10 s clip, and peak memory over two hours of video.

    python benchmarks/decoding.py                 # all of it, a few minutes
    python benchmarks/decoding.py --video x.mp4    # the first part on a video of yours

Ways are interleaved in one process and measured by CPU seconds (decoder threads included), because machines are
shared; OpenCV takes part when it is importable (pip install opencv-python-headless).
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from watchword.video import CentreCrop, Rate, Squash, Uniform, histogram_shots, iterate_frames, read_frames

Way = Callable[[Path], object]
NUM_FRAMES = 28


def make_clip(path: Path) -> Path:
    """Ten seconds of 640 x 360 at 25 fps, h264 as its encoder does by default: texture in motion, a little noise."""
    generator = np.random.default_rng(0)
    texture = generator.integers(0, 244, (36, 64, 3)).repeat(10, 0).repeat(10, 1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 640, 360, "yuv420p"
        for index in range(250):
            picture = np.roll(texture, (2 * index, 3 * index), (0, 1)) + generator.integers(0, 12, texture.shape)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture.astype(np.uint8))))
        container.mux(stream.encode(None))
    return path


def make_long(clip: Path, path: Path, hours: float) -> Path:
    """The clip again and again, packets copied: two hours in a few seconds."""
    with av.open(str(path), "w") as output:
        stream, shift = None, 0
        while shift < hours * 3600:
            with av.open(str(clip)) as source:
                video = source.streams.video[0]
                stream = stream or output.add_stream_from_template(video)
                ticks = round(Fraction(shift) / video.time_base)
                for packet in source.demux(video):
                    if packet.dts is not None:
                        packet.pts, packet.dts, packet.stream = packet.pts + ticks, packet.dts + ticks, stream
                        output.mux(packet)
            shift += 10
    return path


def ours(path: Path) -> object:
    return read_frames(path, Uniform(NUM_FRAMES), CentreCrop(224)).pictures


def plain_pyav(path: Path) -> object:
    """Decode everything, convert the frames that are wanted."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        wanted = set(np.linspace(0, stream.frames - 1, NUM_FRAMES).astype(int).tolist())
        frames = enumerate(container.decode(stream))
        return [frame.to_ndarray(format="rgb24") for index, frame in frames if index in wanted]


def convert_everything(path: Path) -> object:
    """What captioning repositories commonly do: all frames to RGB, then choose."""
    with av.open(str(path)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    return [frames[index] for index in np.linspace(0, len(frames) - 1, NUM_FRAMES).astype(int)]


def opencv_everything(path: Path) -> object:
    import cv2

    video, frames = cv2.VideoCapture(str(path)), []
    while True:
        good, picture = video.read()
        if not good:
            break
        frames.append(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))
    return [cv2.resize(frames[index], (224, 224)) for index in np.linspace(0, len(frames) - 1, NUM_FRAMES).astype(int)]


def opencv_seek(path: Path) -> object:
    """Seeks to each frame by number."""
    import cv2

    video, pictures = cv2.VideoCapture(str(path)), []
    for index in np.linspace(0, video.get(cv2.CAP_PROP_FRAME_COUNT) - 1, NUM_FRAMES).astype(int).tolist():
        video.set(cv2.CAP_PROP_POS_FRAMES, index)
        pictures.append(cv2.resize(cv2.cvtColor(video.read()[1], cv2.COLOR_BGR2RGB), (224, 224)))
    return pictures


def compare(path: Path, rounds: int) -> None:
    ways: dict[str, Way] = {"watchword": ours, "plain PyAV": plain_pyav, "PyAV, convert all": convert_everything}
    try:
        import cv2  # noqa: F401
    except ImportError:
        print("OpenCV is not importable: left out")
    else:
        ways |= {"OpenCV, read all": opencv_everything, "OpenCV, seek each": opencv_seek}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            begin = time.process_time()
            way(path)
            spent[name].append(1000 * (time.process_time() - begin))
    best = statistics.median(spent["watchword"])
    for name, values in spent.items():
        median = statistics.median(values)
        print(f"{name:20s} {median:7.0f} ms CPU (least {min(values):5.0f})  {median / best:5.2f} x")


def memory_of(path: Path, what: str) -> str:
    """Peak memory of a process that does one thing: nothing carries over from one measurement to the next."""
    begin = time.perf_counter()
    command = [sys.executable, __file__, "--child", what, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return f"{result.stdout.strip()} MB peak, {time.perf_counter() - begin:.1f} s"


def child(what: str, path: Path) -> None:
    if what == "sparse":
        read_frames(path, Uniform(NUM_FRAMES), CentreCrop(224))
    elif what == "dense":
        for _ in iterate_frames(path, Rate(2), CentreCrop(224)):
            pass
    elif what == "shots":
        histogram_shots(iterate_frames(path, Rate(8), Squash(64, 48)))
    print(peak_megabytes())


def peak_megabytes() -> int:
    """Of this process alone. On Linux `ru_maxrss` also holds the parent's peak at the time of the fork."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 * 1024 if sys.platform == "darwin" else 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--video", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child[0], Path(arguments.child[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        clip = arguments.video or make_clip(Path(folder) / "clip.mp4")
        if arguments.video is None:
            videos = {"10 s": clip}
            for name, hours in (("10 min", 1 / 6), ("2 h", 2.0)):
                videos[name] = make_long(clip, Path(folder) / f"{name}.mp4", hours)
            print(f"imports alone: {memory_of(clip, 'nothing')}")
            for what, about in (("sparse", "28 frames"), ("dense", "2 frames a second"), ("shots", "shots")):
                for name, video in videos.items():
                    print(f"{about} of {name}: {memory_of(video, what)}", flush=True)
        print(f"{NUM_FRAMES} frames of {clip.name}, {clip.stat().st_size // 1024} KiB")
        compare(clip, arguments.rounds)


if __name__ == "__main__":
    main()
