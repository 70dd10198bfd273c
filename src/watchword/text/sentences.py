"""Captions as text: words that cannot be the last, spelling, capital and full stop."""

from collections.abc import Iterable, Sequence

from watchword.text.vocabulary import Vocabulary

# After these words something must follow. In the 177,438 training captions of MSR-VTT and MSVD each of them is the last
# word in fewer than 3 of 100 places where it stands. Words that do end captions ("up", "around", "that") are not here.
NEVER_LAST = frozenset(
    """
    a an the this these those every each some few various two three four five several many bunch
    his its my our their your
    of to in on at by for from with without into onto through between among towards toward during against beside under
    near about as than after across
    and or but nor while when where who which whose because if then
    is are was were be been being am has have having does will would should may must
    very young old older little small large different new animated
    showing wearing holding giving making getting using putting taking trying adding pouring laying telling describing
    explaining featuring carrying gives gets puts tries adds holds describes discusses
    he she they i we how what front 's
""".split()
)
JOINED = frozenset(["'s", "'re", "'ve", "'ll", "'d", "'m", "n't", "'"])  # PTB writes them as words of their own


def never_last(vocabulary: Vocabulary) -> list[int]:
    """The numbers of the words that cannot end a caption."""
    return [number for number, word in enumerate(vocabulary.words) if word in NEVER_LAST]


def without_loose_end(words: Sequence[str]) -> tuple[str, ...]:
    """A caption that was cut off, up to the last word that may end it; all of it if there is none."""
    for length in range(len(words), 0, -1):
        if words[length - 1] not in NEVER_LAST:
            return tuple(words[:length])
    return tuple(words)


def spelled(words: Iterable[str]) -> str:
    """Tokens as people write them: "a man 's dog does n't bark" has two spaces too many."""
    text = ""
    for word in words:
        text += word if not text or word in JOINED else f" {word}"
    return text


def as_sentence(text: str) -> str:
    """For subtitles and screen readers: with a capital and a full stop."""
    text = text.strip()
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}" if text else ""
