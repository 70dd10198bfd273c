"""ROUGE-L as coco-caption computes it: the best precision and the best recall, maybe of different references.

The longest common subsequence with every reference of a video comes from one walk over the caption: all references
lie side by side in one big integer, a bit per word and a guard bit behind each reference, and one addition per word
said advances all of them (the bit-parallel algorithm of Hyyrö, 2004).
"""

from collections.abc import Sequence

BETA = 1.2


class RougeReferences:
    """The references of one video. A caption without a word is one empty word, as `"".split(" ")` has it."""

    def __init__(self, references: Sequence[Sequence[str]]) -> None:
        self.masks: dict[str, int] = {}  # word -> the places where a reference has it
        self.fields: list[tuple[int, int, int]] = []  # of every reference: shift, ones, number of words
        shift = 0
        for reference in dict.fromkeys(tuple(reference) or ("",) for reference in references):
            for place, word in enumerate(reference, shift):
                self.masks[word] = self.masks.get(word, 0) | 1 << place
            self.fields.append((shift, (1 << len(reference)) - 1, len(reference)))
            shift += len(reference) + 1
        self.open = sum(ones << shift for shift, ones, _ in self.fields)

    def score(self, sentence: Sequence[str]) -> float:
        said = sentence or ("",)
        masks, full = self.masks, self.open
        state = full  # a zero bit is a step of the common subsequence
        for word in said:
            mask = masks.get(word)
            if mask is not None:
                here = state & mask
                state = ((state + here) | (state - here)) & full
        steps = full ^ state
        if not steps:
            return 0.0
        longest, recall = 0, 0.0
        for shift, ones, length in self.fields:
            common = (steps >> shift & ones).bit_count()
            if common:
                longest = max(longest, common)
                recall = max(recall, common / length)
        precision = longest / len(said)
        return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)
