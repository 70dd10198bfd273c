"""What drawn videos can show and how it is described: a lexicon, captions from facts, facts from captions.

Every content word belongs to exactly one value of one kind, so a caption can be read back word by word. Shares are
long-tailed on purpose: a value with a share below `RARE_SHARE` is rare, and so are its words.
"""

from dataclasses import dataclass, replace

import numpy as np

RARE_SHARE = 0.05


@dataclass(frozen=True)
class Entry:
    """How often a value is drawn within its kind, and its phrases, the commonest first."""

    share: float
    phrases: tuple[str, ...] = ()  # none: no caption mentions it


LEXICON: dict[str, dict[str, Entry]] = {
    "texture": {  # fine detail
        "plain": Entry(0.50),
        "striped": Entry(0.28, ("striped",)),
        "dotted": Entry(0.18, ("dotted", "spotted")),
        "checked": Entry(0.04, ("checked",)),
    },
    "scene": {  # the whole picture
        "studio": Entry(0.22),
        "night": Entry(0.28, ("at night", "in the dark")),
        "grass": Entry(0.24, ("on the grass", "in a meadow")),
        "snow": Entry(0.14, ("in the snow",)),
        "sand": Entry(0.08, ("on the sand", "at the beach")),
        "sunset": Entry(0.04, ("at sunset",)),
    },
    "size": {
        "small": Entry(0.50, ("small", "little")),
        "big": Entry(0.50, ("big", "large")),
    },
    "colour": {
        "red": Entry(0.26, ("red",)),
        "blue": Entry(0.22, ("blue",)),
        "green": Entry(0.18, ("green",)),
        "yellow": Entry(0.14, ("yellow",)),
        "orange": Entry(0.09, ("orange",)),
        "purple": Entry(0.06, ("purple",)),
        "pink": Entry(0.03, ("pink",)),
        "turquoise": Entry(0.02, ("turquoise",)),
    },
    "object": {
        "circle": Entry(0.32, ("circle", "disc", "ball")),
        "square": Entry(0.26, ("square", "box")),
        "triangle": Entry(0.18, ("triangle",)),
        "star": Entry(0.10, ("star",)),
        "diamond": Entry(0.06, ("diamond",)),
        "heart": Entry(0.04, ("heart",)),
        "cross": Entry(0.03, ("cross",)),
        "crescent": Entry(0.01, ("crescent",)),
    },
    "action": {
        "moves": Entry(0.32, ("moves", "is moving", "slides", "is sliding", "glides")),
        "appears": Entry(0.10, ("appears", "is appearing", "emerges")),
        "vanishes": Entry(0.10, ("vanishes", "is vanishing", "disappears")),
        "grows": Entry(0.10, ("grows", "is growing", "gets bigger")),
        "shrinks": Entry(0.10, ("shrinks", "is shrinking", "gets smaller")),
        "turns": Entry(
            0.10, ("turns {after}", "is turning {after}", "becomes {after}", "changes from {colour} to {after}")
        ),
        "bounces": Entry(
            0.10, ("bounces off {second}", "is bouncing off {second}", "hits {second}", "bumps into {second}")
        ),
        "jumps": Entry(0.04, ("jumps", "is jumping", "hops")),
        "spins": Entry(0.025, ("spins", "is spinning", "rotates")),
        "blinks": Entry(0.015, ("blinks", "is blinking", "flashes")),
    },
    "direction": {
        "left": Entry(0.30, ("to the left", "left", "leftwards")),
        "right": Entry(0.30, ("to the right", "right", "rightwards")),
        "up": Entry(0.20, ("up", "upwards")),
        "down": Entry(0.20, ("down", "downwards")),
    },
}
FUNCTION_WORDS = frozenset(
    {"a", "an", "the", "is", "at", "in", "on", "off", "into", "from", "to", "there", "that", "gets"}
)
TEMPLATES = ("{subject} {verb} {place}", "{place} {subject} {verb}", "there is {subject} that {verb} {place}")
BACKWARDS = {  # what a video shows when it is played from its end
    "left": "right",
    "right": "left",
    "up": "down",
    "down": "up",
    "appears": "vanishes",
    "vanishes": "appears",
    "grows": "shrinks",
    "shrinks": "grows",
}


def _words_of(phrase: str) -> tuple[str, ...]:
    return tuple(word for word in phrase.split() if word not in FUNCTION_WORDS and not word.startswith("{"))


MEANINGS: dict[str, tuple[str, str]] = {  # content word -> (kind, value)
    word: (kind, value)
    for kind, values in LEXICON.items()
    for value, entry in values.items()
    for phrase in entry.phrases
    for word in _words_of(phrase)
}
RARE_WORDS = frozenset(word for word, (kind, value) in MEANINGS.items() if LEXICON[kind][value].share < RARE_SHARE)


def kind_of(word: str) -> str:
    """texture (fine detail), scene (the whole picture), object, colour, size, action, direction, or function."""
    return MEANINGS[word][0] if word in MEANINGS else "function"


@dataclass(frozen=True)
class Thing:
    """The appearance of an object."""

    object: str
    colour: str
    texture: str
    size: str | None  # None where the event changes it


@dataclass(frozen=True)
class Facts:
    """What a video shows, as values of the lexicon."""

    subject: Thing
    action: str
    scene: str
    direction: str | None = None  # moves
    after: str | None = None  # turns: the colour at the end
    second: Thing | None = None  # bounces: what the subject meets

    def backwards(self) -> "Facts":
        """The facts of the same video played from its end."""
        facts = replace(self, action=BACKWARDS.get(self.action, self.action))
        if self.direction is not None:
            facts = replace(facts, direction=BACKWARDS[self.direction])
        if self.after is not None:
            facts = replace(facts, subject=replace(self.subject, colour=self.after), after=self.subject.colour)
        return facts

    @property
    def depends_on_order(self) -> bool:
        return self.backwards() != self

    @property
    def order_words(self) -> frozenset[str]:
        """Words that no single frame, and no set of frames without their order, can decide."""
        values = {self.action} if self.action in BACKWARDS else set()
        values |= {value for value in (self.direction, self.after) if value is not None}
        if self.after is not None:
            values.add(self.subject.colour)
        return frozenset(word for word, (_, value) in MEANINGS.items() if value in values)


def draw_value(
    rng: np.random.Generator, kind: str, among: tuple[str, ...] = (), without: frozenset[str] = frozenset()
) -> str:
    """A value of a kind by its share, of all or of some."""
    values = [value for value in among or LEXICON[kind] if value not in without]
    shares = np.array([LEXICON[kind][value].share for value in values])
    return values[int(rng.choice(len(values), p=shares / shares.sum()))]


def describe(facts: Facts, rng: np.random.Generator, num_captions: int) -> tuple[str, ...]:
    """Several wordings: the first has every detail, the second only the necessary ones, the others some of them."""
    chances = [1.0, 0.0] + [0.5] * (num_captions - 2)
    return tuple(_sentence(facts, rng, chance) for chance in chances[:num_captions])


def _sentence(facts: Facts, rng: np.random.Generator, chance: float) -> str:
    """One caption; size, texture and scene are each mentioned with the given probability."""
    size, texture, scene = (float(draw) < chance for draw in rng.random(3))
    template = TEMPLATES[int(rng.choice(len(TEMPLATES), p=(0.6, 0.2, 0.2)))]
    subject = _noun(facts.subject, rng, size, texture, the=0.0 if template.startswith("there") else 0.3)
    verb = _phrase(rng, "action", facts.action)
    if facts.second is not None:
        verb = verb.replace("{second}", _noun(facts.second, rng, False, False, the=0.3))
    verb = verb.replace("{colour}", facts.subject.colour).replace("{after}", facts.after or "")
    if facts.direction is not None:
        verb = f"{verb} {_phrase(rng, 'direction', facts.direction)}"
    place = _phrase(rng, "scene", facts.scene) if scene else ""
    return " ".join(template.format(subject=subject, verb=verb, place=place).split())


def _noun(thing: Thing, rng: np.random.Generator, size: bool, texture: bool, the: float) -> str:
    words = [_phrase(rng, "size", thing.size)] if size and thing.size else []
    words += [_phrase(rng, "texture", thing.texture)] if texture else []
    words += [thing.colour, _phrase(rng, "object", thing.object)]
    first = " ".join(words).split()[0]
    article = "the" if rng.random() < the else "an" if first[0] in "aeiou" else "a"
    return " ".join([article, *words])


def _phrase(rng: np.random.Generator, kind: str, value: str) -> str:
    phrases = LEXICON[kind][value].phrases
    if not phrases:
        return ""
    weights = 1.0 / np.arange(1, len(phrases) + 1)
    return phrases[int(rng.choice(len(phrases), p=weights / weights.sum()))]


def meaning(caption: str) -> dict[str, str]:
    """The facts of a caption, kind -> value; the second object and colour as `second`, `second_colour`, `after`.

    Any caption can be parsed, also a wrong one of a model: unknown words are ignored.
    """
    found: dict[str, list[str]] = {}
    for word in caption.lower().split():
        if word in MEANINGS:
            kind, value = MEANINGS[word]
            found.setdefault(kind, []).append(value)
    said = {kind: values[0] for kind, values in found.items()}
    objects, colours = found.get("object", []), found.get("colour", [])
    if said.get("action") == "turns" and len(colours) > 1:
        said["after"] = colours[-1]
    if said.get("action") == "bounces":
        said |= {"second": objects[-1]} if len(objects) > 1 else {}
        said |= {"second_colour": colours[-1]} if len(colours) > 1 else {}
    return said
