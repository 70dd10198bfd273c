"""Which words of a caption name things, which say what happens, which say how things look.

A tagger of our own for captions, whose English is small: who, how they look, what they do, to what, where. Lists of
words with few meanings (closed classes, adjectives, verbs), forms of verbs made by rule, and for words that can be
two things (`plays`, `dance`, `a painting`, `is painting`) what stands before and after them. A word that no list and
no ending knows is a noun: names and things are the open class of captions. No model, no download, no Java. How often
it is right on captions tagged by hand stands in docs/papers/global2local.md.

Conventions, where grammars differ: forms of *be* and modals, numbers, pronouns, adverbs and prepositions are `other`;
*have* and *do* are verbs unless they help another verb; a participle before a noun is an adjective (`a sliced
onion`), otherwise a verb (`is shown`, `a man dressed in`, `after slicing`); an activity before a noun is a noun (`a
cooking show`).
"""

from collections.abc import Sequence
from typing import Literal

from watchword.text.caption_words import (
    ACTIVITIES,
    ADJECTIVES,
    ALSO_NOUNS,
    BARE_PAST,
    BE,
    CLAUSE_OPENERS,
    DETERMINERS,
    FUNCTION_WORDS,
    HAVE_AND_DO,
    ING_NOUNS,
    IRREGULAR_PAST,
    IRREGULAR_PLURALS,
    LY_WORDS,
    MODALS,
    NOT_ADJECTIVES,
    NOT_PLURALS,
    NOUNS_TOO,
    PERSONS,
    PLURAL_SUBJECTS,
    PREPOSITIONS,
    SINGULAR_SUBJECTS,
    VERBS,
)

Part = Literal["noun", "verb", "adjective", "other"]

HELPERS = MODALS | {"n't", "not", "do", "does", "did", "let", "lets", "help", "helps"}  # then the base of a verb
ADJECTIVE_ENDINGS = ("ful", "ous", "less", "able", "ible", "ical", "ional", "ial", "ual", "ese", "like")


def parts_of_speech(tokens: Sequence[str]) -> list[Part]:
    """One part for each token of a tokenised caption."""
    words = [token.lower() for token in tokens]
    parts: list[Part] = []
    clause_has_verb = False
    for place, word in enumerate(words):
        if word in CLAUSE_OPENERS:
            clause_has_verb = False
        part = _part(words, parts, place, clause_has_verb)
        if (part == "verb" and not word.endswith("ing")) or word in BE:
            clause_has_verb = True
        parts.append(part)
    return parts


def _part(words: list[str], parts: list[Part], place: int, clause_has_verb: bool) -> Part:
    word, before, after = words[place], _before(words, place), words[place + 1] if place + 1 < len(words) else ""
    if word in HAVE_AND_DO:
        helps = after in FUNCTION_WORDS - DETERMINERS - PREPOSITIONS or is_participle(after) or base_of(after) == after
        return "other" if helps and not (word != "do" and after in DETERMINERS) else "verb"
    if word == "like" and (before in {"to", "would", "i", "they", "n't"} | PLURAL_SUBJECTS):
        return "verb"
    if word == "next" and after == "to":
        return "other"
    if word == "back" and before in DETERMINERS:
        return "noun"
    if word in {"other", "same", "fast", "hard", "past", "late"} and before != "each" and _may_be_thing(after):
        return "adjective"
    if word in FUNCTION_WORDS or not any(letter.isalpha() for letter in word) or word.startswith("'"):
        return "other"
    if "-" in word.strip("-"):
        last = word.rpartition("-")[2]
        return "adjective" if last in ADJECTIVES or is_participle(last) or last == "haired" else "noun"
    in_phrase = before in DETERMINERS or (place > 0 and parts[-1] == "adjective")  # something must still be named
    follows_be = before in BE
    follows_noun = place > 0 and parts[-1] == "noun"
    thing_follows = _may_be_thing(after)
    if is_adjective(word) and not (word.endswith("ing") and follows_be):
        if word in VERBS and (before == "to" or (not in_phrase and (after in DETERMINERS) and not follows_be)):
            return "verb"
        if is_participle(word) and after in DETERMINERS and not in_phrase:
            return "verb"  # cooked the greens
        if word in NOUNS_TOO and in_phrase and after.endswith("ing") and after not in ACTIVITIES | ING_NOUNS:
            return "noun"  # a male applying
        if thing_follows and not (word in NOUNS_TOO and base_of(after) and not in_phrase):
            return "adjective"
        if word in NOUNS_TOO and (in_phrase or before in PREPOSITIONS) and word not in {"young", "old"}:
            return "noun"
        return "adjective"
    if word.endswith("ly") and word not in LY_WORDS:
        return "other"
    if word.endswith("ing") and len(word) > 4:
        return _part_of_ing(word, before, after, in_phrase, thing_follows)
    if is_participle(word) and base_of(word) != word:
        if word in BARE_PAST and in_phrase:
            return "noun"
        if (in_phrase or before in PREPOSITIONS | {""}) and thing_follows and word not in {"made", "used"}:
            return "adjective"
        return "noun" if in_phrase and word.endswith("ed") and not follows_noun and len(word) < 5 else "verb"
    base = base_of(word)
    if base is None:
        return "verb" if before == "to" and after in DETERMINERS else "noun"
    if base == word:
        return _part_of_base(words, parts, place, in_phrase, clause_has_verb)
    return _part_of_s_form(words, parts, place, base, in_phrase, clause_has_verb)


def _part_of_ing(word: str, before: str, after: str, in_phrase: bool, thing_follows: bool) -> Part:
    if word in ING_NOUNS and before not in BE:
        return "noun"
    if in_phrase:
        if not thing_follows:
            return "noun"  # the recording of
        return "noun" if word in ACTIVITIES else "adjective"
    if before in PREPOSITIONS and thing_follows and word in ACTIVITIES and before not in {"of", "about", "for", "by"}:
        return "noun"  # at shopping mall
    return "verb"


def _part_of_base(words: list[str], parts: list[Part], place: int, in_phrase: bool, clause_has_verb: bool) -> Part:
    word, before, after = words[place], _before(words, place), words[place + 1] if place + 1 < len(words) else ""
    earlier = words[place - 2] if place > 1 else ""
    if before == "to":  # next to water, listening to talk: there `to` leads to a thing
        to_a_thing = earlier in {"next", "close"} or base_of(earlier) in {"listen", "dance", "sing"}
        return "noun" if word in ALSO_NOUNS and to_a_thing else "verb"
    if before in HELPERS or (before in HAVE_AND_DO and word in IRREGULAR_PAST):
        return "verb"
    if in_phrase:
        return "noun"
    if word not in ALSO_NOUNS:
        return "verb"
    last = parts[-1] if parts else "other"
    if before in {"i", "you", "we", "they"}:
        return "verb"
    plural = before in IRREGULAR_PLURALS or (last == "noun" and before.endswith("s") and before not in NOT_PLURALS)
    if not clause_has_verb and (plural or before in PLURAL_SUBJECTS) and after not in BE:
        return "verb"  # people dance
    if not clause_has_verb and before in PERSONS and _opens_object(after):
        return "verb"  # a man talk about
    if before in {"and", "or"} and place > 1 and parts[place - 2] == "verb" and base_of(earlier) == earlier:
        return "verb"  # sing and dance
    return "noun"


def _part_of_s_form(
    words: list[str], parts: list[Part], place: int, base: str, in_phrase: bool, clause_has_verb: bool
) -> Part:
    before, after = _before(words, place), words[place + 1] if place + 1 < len(words) else ""
    if base not in ALSO_NOUNS:
        return "noun" if before in DETERMINERS else "verb"
    if in_phrase or before in PREPOSITIONS:
        return "noun"
    verb_follows = after.endswith("s") and base_of(after) not in (None, after) and base_of(after) not in ALSO_NOUNS
    if after in BE or verb_follows:
        return "noun"  # tv shows are
    last = parts[-1] if parts else "other"
    if not clause_has_verb and (last == "noun" or before in SINGULAR_SUBJECTS):
        plural = before in IRREGULAR_PLURALS
        return "noun" if plural and not _opens_object(after) else "verb"
    if before in {"and", "or", "then", ","} and place > 1:
        spoke = any(part == "verb" for part in parts)
        return "verb" if parts[place - 2] == "verb" or (spoke and _opens_object(after) and after != "of") else "noun"
    return "noun"


def _before(words: list[str], place: int) -> str:
    """The word before, adverbs in -ly and the like passed over."""
    place -= 1
    while place >= 0 and (
        (words[place].endswith("ly") and words[place] not in LY_WORDS | ADJECTIVES)
        or words[place] in {"also", "just", "still", "then", "now", "together", "always", "slowly", "not"}
    ):
        place -= 1
    return words[place] if place >= 0 else ""


def _may_be_thing(word: str) -> bool:
    """Whether a noun phrase may go on with this word."""
    return (
        bool(word)
        and word not in FUNCTION_WORDS | HAVE_AND_DO
        and word[0].isalpha()
        and not (word.endswith("ly") and word not in LY_WORDS | ADJECTIVES)
    )


def _opens_object(word: str) -> bool:
    """Whether this may come straight after a verb: a determiner, a preposition, a particle, the end."""
    return not word or (word != "of" and word in DETERMINERS | PREPOSITIONS | FUNCTION_WORDS - BE)


def is_adjective(word: str) -> bool:
    """By the list, or by an ending that only adjectives have."""
    return word in ADJECTIVES or (word.endswith(ADJECTIVE_ENDINGS) and word not in NOT_ADJECTIVES and len(word) > 5)


def is_participle(word: str) -> bool:
    """A past form: sliced, thrown."""
    return word in IRREGULAR_PAST or (word.endswith("ed") and len(word) > 4 and not word.endswith("eed"))


def base_of(word: str) -> str | None:
    """The verb that a word may be a form of, as its dictionary entry: plays -> play, running -> run."""
    if word in VERBS:
        return word
    for ending, instead in (
        ("ies", "y"),
        ("es", ""),
        ("es", "e"),
        ("s", ""),
        ("ied", "y"),
        ("ed", ""),
        ("ed", "e"),
        ("ing", ""),
        ("ing", "e"),
    ):
        if word.endswith(ending):
            stem = word[: -len(ending)]
            doubled = len(stem) > 2 and stem[-1] == stem[-2]
            for base in (stem + instead, *([stem[:-1]] if doubled and not instead else [])):
                if base in VERBS:
                    return base
    return None
