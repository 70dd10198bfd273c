"""Objects, attributes and relations: which kinds of things a caption gets right. Ours, in the manner of SPICE.

SPICE (Anderson et al. 2016) parses captions into tuples with Java and a large language model of its time, and G2L's
Fig. 7 shows its parts. This is a reading without a parser, from the parts of speech of `text/parts_of_speech.py`; it is
not SPICE, and its figures must not stand in a table beside SPICE's. The tuples are SPICE's:

    "a young girl standing on a tennis court"
    object     (girl) (court)
    attribute  (girl, young) (girl, stand) (court, tennis)
    relation   (girl, on, court)

A noun phrase is a run of adjectives and nouns; its last noun is the object, what stands before it are attributes,
numbers too. A verb between two phrases relates them; one with nothing after it, or with a preposition, is an attribute
of its subject, and the preposition relates. Its subject is the phrase before it, or the first of the clause after
*be*, *and* or a comma. Words are compared as stems; synonyms do not match.

As in SPICE, the tuples of all references of a video are one set, and the score is the F1 of the tuples of the caption
and this set, for each kind, averaged over the videos that have the kind on either side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from watchword.metrics.meteor.normalise import stem
from watchword.text.parts_of_speech import BE, PREPOSITIONS, base_of, parts_of_speech
from watchword.text.ptb import tokenise

KINDS = ("object", "relation", "attribute")
NUMBERS = frozenset("one two three four five six seven eight nine ten".split())
PERSONS = {
    "someone": "person",
    "somebody": "person",
    "people": "person",
    "persons": "person",
    "men": "man",
    "women": "woman",
    "children": "child",
    "kids": "child",
    "kid": "child",
}
IRREGULAR = {"sang": "sing", "sung": "sing", "ran": "run", "ate": "eat", "sat": "sit", "stood": "stand", "rode": "ride",
             "shown": "show", "made": "make", "took": "take", "taken": "take", "held": "hold", "fought": "fight",
             "drove": "drive", "driven": "drive", "threw": "throw", "thrown": "throw", "wore": "wear", "worn": "wear",
             "spoke": "speak", "gave": "give", "given": "give", "went": "go", "gone": "go", "did": "do", "done": "do",
             "has": "have", "had": "have", "does": "do", "fell": "fall", "played": "play"}  # fmt: skip


@dataclass
class Scene:
    """What one caption, or many, say there is."""

    object: set[tuple[str, ...]] = field(default_factory=set)
    relation: set[tuple[str, ...]] = field(default_factory=set)
    attribute: set[tuple[str, ...]] = field(default_factory=set)

    def add(self, other: "Scene") -> None:
        for kind in KINDS:
            getattr(self, kind).update(getattr(other, kind))


def read_scene(tokens: Sequence[str]) -> Scene:
    """The tuples of one tokenised caption."""
    scene = Scene()
    words = [token.lower() for token in tokens]
    parts = parts_of_speech(words)
    first = subject = verb = preposition = number = ""
    after_break = False  # since `is`, `and` or a comma: a verb now goes with the first phrase of the clause
    place = 0
    while place < len(words):
        word, part = words[place], parts[place]
        if part in ("adjective", "noun") or word in ("someone", "somebody"):
            place, attributes, head = _phrase(words, parts, place)
            if not head:  # a man is old
                owner = first if after_break else subject
                scene.attribute.update((owner, attribute) for attribute in attributes if owner)
                continue
            scene.object.add((head,))
            scene.attribute.update((head, attribute) for attribute in (*attributes, *([number] if number else [])))
            if verb and subject and preposition:
                scene.attribute.add((subject, verb))
            link = preposition or verb
            if link and subject:
                scene.relation.add((subject, link, head))
            first = first or head
            subject, verb, preposition, number, after_break = head, "", "", "", False
            continue
        if part == "verb":
            if verb and subject:  # sitting talking: nothing came between
                scene.attribute.add((subject, verb))
            verb, preposition = verb_base(word), ""
            subject = first if after_break else subject
        elif word in NUMBERS:
            number = word
        elif word in PREPOSITIONS and word != "as":
            preposition = word
        elif word in BE or word in ("and", ",", "then", "while"):
            after_break = True
            if word == "while" or (word not in BE and verb):
                scene.attribute.update({(subject, verb)} if verb and subject else ())
                verb = preposition = ""
        place += 1
    if verb and subject:
        scene.attribute.add((subject, verb))
    return scene


def _phrase(words: Sequence[str], parts: Sequence[str], place: int) -> tuple[int, list[str], str]:
    """The noun phrase that begins here: where it ends, the stems of what describes its head, and the head's."""
    if words[place] in ("someone", "somebody"):
        return place + 1, [], "person"
    end = place
    while end < len(words) and parts[end] in ("adjective", "noun"):
        end += 1
    stems = [stem(PERSONS.get(word, word)) for word in words[place:end]]
    if parts[end - 1] == "noun":
        return end, stems[:-1], stems[-1]
    return end, stems, ""


def verb_base(word: str) -> str:
    """The verb's dictionary form, or the stem of a verb that the lists lack."""
    return IRREGULAR.get(word) or base_of(word) or stem(word)


@dataclass(frozen=True)
class KindScores:
    """F1, precision and recall of each kind, means over videos; how many videos have the kind at all."""

    f1: dict[str, float]
    precision: dict[str, float]
    recall: dict[str, float]
    videos: dict[str, int]


def score_tuples(references: Mapping[str, Sequence[str]], hypotheses: Mapping[str, str]) -> KindScores:
    """Of one caption for each video, against all references of it."""
    found: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in KINDS}
    for video, captions in references.items():
        known = Scene()
        for tokens in tokenise(list(captions)):
            known.add(read_scene(tokens))
        said = read_scene(tokenise([hypotheses[video]])[0])
        for kind in KINDS:
            true, claimed = getattr(known, kind), getattr(said, kind)
            if true or claimed:
                right = len(true & claimed)
                precision, recall = right / max(len(claimed), 1), right / max(len(true), 1)
                found[kind].append((2 * right / (len(true) + len(claimed)), precision, recall))
    means = {kind: np.mean(rows, 0).tolist() if rows else [0.0, 0.0, 0.0] for kind, rows in found.items()}
    f1s, precisions, recalls = ({kind: float(means[kind][column]) for kind in KINDS} for column in range(3))
    return KindScores(f1s, precisions, recalls, {kind: len(rows) for kind, rows in found.items()})
