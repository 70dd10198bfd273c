"""Videos of coloured shapes, drawn from a seed, with captions and with the truth about them.

One object, the subject, does something; the others (distractors) only sway where they stand, so the subject can be
recognised, but only in the frames of the event. Events with a direction in time are drawn one way and played backwards
for the opposite word: no frame, and no set of frames without their order, separates moving left from moving right.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from watchword.errors import WatchwordError, unknown
from watchword.research.shapes.drawing import Track, paint, paint_scene
from watchword.research.shapes.grammar import LEXICON, RARE_WORDS, Facts, Thing, describe, draw_value
from watchword.types import Clip, FloatArray

EVENTS = ("anywhere", "whole")
OUTSIDE = ("rest", "hidden")
RADII = {"small": 0.09, "big": 0.15}
GROWTH = (0.075, 0.165)  # radius before and after growing
PLAYED_BACKWARDS = frozenset({"left", "up", "vanishes", "shrinks"})
VISIBLE_OPACITY = 0.1
MOST_DISTRACTORS = 8  # more would cover each other
SPLITS = ("train",) * 7 + ("val",) + ("test",) * 2


@dataclass(frozen=True)
class ShapesConfig:
    """All that a video depends on, besides its index."""

    seed: int = 0
    count: int = 500
    frames: int = 16
    frames_per_second: float = 8.0
    size: int = 64  # pixels, a multiple of 16: the cells of every grid are whole pixels
    distractors: int = 2
    regions: int = 8  # places of the stream `regions`: objects, then background, in random slots
    captions: int = 6
    event: str = "anywhere"  # anywhere: a part of the video; whole: all of it
    longest_event: float = 2 / 3  # of the video; the shortest is half of it, but five frames at least
    outside: str = "rest"  # what the subject does outside its event: rest, or hidden from sight
    actions: tuple[str, ...] = ()  # only these; empty: all, by their shares

    def __post_init__(self) -> None:
        if self.event not in EVENTS:
            raise unknown("event of shapes", self.event, EVENTS)
        if self.outside not in OUTSIDE:
            raise unknown("outside of shapes", self.outside, OUTSIDE)
        for action in self.actions:
            if action not in LEXICON["action"]:
                raise unknown("action of shapes", action, LEXICON["action"])
        if self.size < 32 or self.size % 16:
            raise WatchwordError(f"shapes cannot draw pictures of {self.size} pixels: use a multiple of 16, 32 or more")
        if self.frames < 8:
            raise WatchwordError(f"shapes cannot show an event in {self.frames} frames: use 8 or more")
        if not 5 <= int(self.frames * self.longest_event) <= self.frames:
            raise WatchwordError(
                f"an event of at most {self.longest_event:.2g} of {self.frames} frames: it needs five, and the video "
                "ends; draw more frames or change longest_event"
            )
        if self.distractors > MOST_DISTRACTORS:
            raise WatchwordError(
                f"{self.distractors} distractors do not fit into a picture: draw {MOST_DISTRACTORS} at the most"
            )
        if not 0 <= self.distractors <= self.regions - 2:
            raise WatchwordError(
                f"{self.distractors} distractors, a subject and what it meets need {self.distractors + 2} regions, "
                f"there are {self.regions}: raise regions or draw fewer distractors"
            )
        for name in ("count", "captions"):
            if getattr(self, name) < 1:
                raise WatchwordError(f"shapes needs at least one of {name}, not {getattr(self, name)}")


@dataclass(frozen=True)
class Truth:
    """The truth, which real data lacks. The K slots are the locations of the stream `regions`, in its order."""

    facts: Facts
    event: tuple[int, int]  # frames [start, end) in which it happens
    boxes: FloatArray  # (F, K, 4) x0 y0 x1 y1, 0..1
    visible: NDArray[np.bool_]  # (F, K)
    things: tuple[Thing | None, ...]  # (K,) None is background: a box with nothing in it
    subject: int  # the slot of the subject of the captions
    second: int | None  # the slot that the subject bounces off
    order_words: tuple[str, ...]  # words of the captions that only the order of time decides
    rare_words: tuple[str, ...]  # words of the captions that are rare in the whole data set

    @property
    def distractors(self) -> tuple[int, ...]:
        spoken_of = {self.subject, self.second}
        return tuple(slot for slot, thing in enumerate(self.things) if thing is not None and slot not in spoken_of)


@dataclass(frozen=True)
class DrawnVideo:
    """A video, its captions and the truth."""

    video: str
    split: str
    pictures: NDArray[np.uint8]  # (F, H, W, 3)
    times: FloatArray  # (F,) seconds
    captions: tuple[str, ...]
    truth: Truth

    @property
    def clip(self) -> Clip:
        return Clip(self.video, self.split, self.captions)


def split_of(index: int) -> str:
    """Of ten videos seven train, one validates, two test; a video stays where it is when more are drawn."""
    return SPLITS[index % len(SPLITS)]


def draw_videos(config: ShapesConfig) -> Iterator[DrawnVideo]:
    """All videos of a configuration, one after the other."""
    return (draw_video(config, index) for index in range(config.count))


def draw_video(config: ShapesConfig, index: int) -> DrawnVideo:
    """The video number `index`: it depends on the configuration and its own number, on no other video."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy=config.seed, spawn_key=(index,))))
    facts = _draw_facts(config, rng)
    backwards = bool({facts.action, facts.direction} & PLAYED_BACKWARDS)
    event = _draw_event(config, rng)
    tracks, background = _stage(config, facts.backwards() if backwards else facts, event, rng)
    pictures, boxes = _shoot(config, facts.scene, tracks, rng)  # subject first
    opacity = np.stack([track.opacity for track in tracks], axis=1)  # (F, objects)

    slots = rng.permutation(config.regions)  # so that a slot's number carries no information
    places = np.concatenate([boxes, np.broadcast_to(background, (config.frames, *background.shape))], axis=1)
    visible = np.ones((config.frames, config.regions), bool)
    visible[:, : len(tracks)] = opacity >= VISIBLE_OPACITY
    things = [track.thing for track in tracks] + [None] * len(background)
    order = np.argsort(slots)
    truth = Truth(
        facts.backwards() if backwards else facts,
        event,
        np.where(visible[..., None], places, 0)[:, order],
        visible[:, order],
        tuple(things[place] for place in order),
        subject=int(slots[0]),
        second=int(slots[1]) if facts.second is not None else None,
        order_words=(),
        rare_words=(),
    )
    times = np.arange(config.frames) / config.frames_per_second
    drawn = DrawnVideo(f"shapes{index:06d}", split_of(index), pictures, times, (), truth)
    drawn = _flip(drawn) if backwards else drawn
    return _with_captions(drawn, describe(facts, rng, config.captions))


def play_backwards(drawn: DrawnVideo) -> DrawnVideo:
    """The same video from its end, with the truth and the captions that then hold."""
    drawn, rng = _flip(drawn), np.random.Generator(np.random.PCG64(0))
    return _with_captions(drawn, describe(drawn.truth.facts, rng, len(drawn.captions)))


def _flip(drawn: DrawnVideo) -> DrawnVideo:
    truth = drawn.truth
    start, end = truth.event
    facts = truth.facts.backwards()
    things = tuple(facts.subject if slot == truth.subject else thing for slot, thing in enumerate(truth.things))
    truth = replace(
        truth,
        facts=facts,
        event=(len(drawn.times) - end, len(drawn.times) - start),
        things=things,
        boxes=truth.boxes[::-1],
        visible=truth.visible[::-1],
    )
    return replace(drawn, pictures=drawn.pictures[::-1], truth=truth)


def _with_captions(drawn: DrawnVideo, captions: tuple[str, ...]) -> DrawnVideo:
    """The video with other captions, and what is true of their words."""
    words = {word for caption in captions for word in caption.split()}
    truth = replace(
        drawn.truth,
        order_words=tuple(sorted(words & drawn.truth.facts.order_words)),
        rare_words=tuple(sorted(words & RARE_WORDS)),
    )
    return replace(drawn, captions=captions, truth=truth)


def _draw_facts(config: ShapesConfig, rng: np.random.Generator) -> Facts:
    action = draw_value(rng, "action", config.actions)
    scene = draw_value(rng, "scene")
    subject = _draw_thing(rng, ())
    if action == "spins" and subject.object == "circle":  # a plain circle that spins does not change
        subject = replace(subject, object=draw_value(rng, "object", without=frozenset({"circle"})))
    if action == "moves":
        return Facts(subject, action, scene, direction=draw_value(rng, "direction"))
    if action == "turns":
        colours = [subject.colour, draw_value(rng, "colour", without=frozenset({subject.colour}))]
        first, after = rng.permutation(colours)  # either way round is as likely
        return Facts(replace(subject, colour=str(first)), action, scene, after=str(after))
    if action == "bounces":
        return Facts(subject, action, scene, second=_draw_thing(rng, (subject,)))
    if action in ("grows", "shrinks"):
        subject = replace(subject, size=None)
    return Facts(subject, action, scene)


def _draw_thing(rng: np.random.Generator, others: tuple[Thing, ...]) -> Thing:
    """An object that differs from all others in colour or shape."""
    taken = {(other.object, other.colour) for other in others}
    while True:
        thing = Thing(*(draw_value(rng, kind) for kind in ("object", "colour", "texture", "size")))
        if (thing.object, thing.colour) not in taken:
            return thing


def _draw_event(config: ShapesConfig, rng: np.random.Generator) -> tuple[int, int]:
    if config.event == "whole":
        return 0, config.frames
    longest = int(config.frames * config.longest_event)
    length = int(rng.integers(max(5, longest // 2), longest + 1))
    start = int(rng.integers(0, config.frames - length + 1))
    return start, start + length


def _stage(
    config: ShapesConfig, facts: Facts, event: tuple[int, int], rng: np.random.Generator
) -> tuple[list[Track], FloatArray]:
    """Where everything is in every frame: subject, what it meets, distractors; and boxes (., 4) of mere background."""
    subject = _perform(config, facts, event, rng)
    tracks = [subject]
    if facts.second is not None:
        tracks.append(_stand(config, facts.second, rng, sway=0.0))
        line = rng.choice(8) * np.pi / 4
        heading = np.array([np.cos(line), np.sin(line)])
        # The subject's path ends at the origin; it touches there, so the second stands one radius of each further on.
        offsets = -heading * rng.uniform(0.28, 0.36) * subject.turned[:, None]
        contact = heading * 0.95 * (subject.radii[0] + tracks[1].radii[0])
        tracks = [
            replace(subject, centres=offsets, turned=np.zeros(config.frames)),
            replace(tracks[1], centres=np.broadcast_to(contact, (config.frames, 2))),
        ]
    known = (facts.subject, replace(facts.subject, colour=facts.after or facts.subject.colour), facts.second)
    things = tuple(thing for thing in known if thing is not None)
    low, high = _sweep(tracks)
    base = rng.uniform(0.02 - low, np.maximum(0.98 - high, 0.02 - low))
    tracks = [replace(track, centres=track.centres + base) for track in tracks]
    taken = np.concatenate([_covered(track) for track in tracks])
    for _ in range(config.distractors):
        thing = _draw_thing(rng, things)
        track = _stand(config, thing, rng, sway=0.015)
        low, high = _sweep([track])
        centre = _free_place(rng, high - low, taken) - low
        tracks.append(replace(track, centres=track.centres + centre))
        things, taken = (*things, thing), np.concatenate([taken, _covered(tracks[-1])])
    background = np.zeros((config.regions - len(tracks), 4))
    for box in background:
        extent = rng.uniform(0.15, 0.3, 2)
        box[:2] = _free_place(rng, extent, taken)
        box[2:] = box[:2] + extent
    return tracks, background


def _perform(config: ShapesConfig, facts: Facts, event: tuple[int, int], rng: np.random.Generator) -> Track:
    """The subject's event around the origin, forwards in time."""
    start, end = event
    frame = np.arange(config.frames)
    part = np.clip((frame - start) / (end - 1 - start), 0, 1)  # of the event, (F,): 0 before, 1 after
    inside = (frame >= start) & (frame < end)
    track = _stand(config, facts.subject, rng, sway=0.0)
    if config.outside == "hidden" and facts.action not in ("appears", "vanishes"):
        track = replace(track, opacity=inside.astype(np.float64))
    match facts.action:
        case "moves":
            way = np.array([1.0, 0.0] if facts.direction == "right" else [0.0, 1.0]) * rng.uniform(0.35, 0.55)
            return replace(track, centres=part[:, None] * way)
        case "appears":
            return replace(track, opacity=np.where(frame < start, 0, 0.15 + 0.85 * part))
        case "grows":
            return replace(track, radii=GROWTH[0] + (GROWTH[1] - GROWTH[0]) * part)
        case "turns":
            return replace(track, after=facts.after, turned=part)
        case "bounces":
            return replace(track, turned=np.abs(1 - 2 * part))  # distance from what it meets
        case "jumps":
            height = rng.uniform(0.25, 0.35) * 4 * part * (1 - part)
            return replace(track, centres=np.stack([np.zeros_like(part), -height], axis=1))
        case "spins":
            return replace(track, angles=rng.choice((-0.3, 0.3)) * part * (end - 1 - start))
        case "blinks":
            dark = inside & ((frame - start) % 2 == 1)
            return replace(track, opacity=np.where(dark, 0.2, track.opacity))
    raise AssertionError(facts.action)


def _stand(config: ShapesConfig, thing: Thing, rng: np.random.Generator, sway: float) -> Track:
    """An object around the origin that does nothing, but may sway a little."""
    frames = config.frames
    phase, pace = rng.uniform(0, 2 * np.pi, 2), rng.uniform(0.3, 0.7, 2)
    centres = sway * np.sin(phase + pace * np.arange(frames)[:, None])
    radius = RADII[thing.size] if thing.size else GROWTH[0]
    nothing = np.zeros(frames)
    return Track(thing, centres, np.full(frames, radius), np.ones(frames), nothing, None, nothing)


def _sweep(tracks: list[Track]) -> tuple[FloatArray, FloatArray]:
    """Low and high corner of all that the objects ever cover."""
    reach = [1.15 * track.radii[:, None] for track in tracks]
    low = np.min([(track.centres - r).min(0) for track, r in zip(tracks, reach, strict=True)], axis=0)
    high = np.max([(track.centres + r).max(0) for track, r in zip(tracks, reach, strict=True)], axis=0)
    return low, high


def _covered(track: Track) -> FloatArray:
    """(., 4): what the object covers in every third frame and in the last."""
    frames = np.r_[: len(track.radii) : 3, len(track.radii) - 1]
    centres, reach = track.centres[frames], 1.05 * track.radii[frames, None]
    return np.concatenate([centres - reach, centres + reach], axis=1)


def _free_place(rng: np.random.Generator, extent: FloatArray, taken: FloatArray) -> FloatArray:
    """The low corner of a box of this extent that overlaps least with what is taken (., 4), of 60 random ones."""
    lows = rng.uniform(0.02, np.maximum(0.98 - extent, 0.02), (60, 2))
    overlap = np.minimum((lows + extent)[:, None], taken[:, 2:]) - np.maximum(lows[:, None], taken[:, :2])
    return np.asarray(lows[np.clip(overlap, 0, None).prod(-1).sum(-1).argmin()])


def _shoot(
    config: ShapesConfig, scene: str, tracks: list[Track], rng: np.random.Generator
) -> tuple[NDArray[np.uint8], FloatArray]:
    """Pictures (F, H, W, 3), and the boxes (F, objects, 4) of the tracks; the first track is painted on top."""
    size, margin = config.size, config.size // 4 + 4
    canvas = np.zeros((config.frames, size + 2 * margin, size + 2 * margin, 3), np.float32)
    picture = canvas[:, margin:-margin, margin:-margin]
    picture[:] = paint_scene(scene, size, rng)
    boxes = [paint(canvas, margin, track) for track in tracks[::-1]][::-1]
    noise = rng.integers(-3, 4, picture.shape, dtype=np.int8)
    pictures = np.clip(np.rint(picture) + noise, 0, 255).astype(np.uint8)
    return pictures, np.clip(np.stack(boxes, axis=1), 0, 1)
