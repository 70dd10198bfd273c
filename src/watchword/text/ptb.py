"""The Penn Treebank tokenizer as coco-caption runs it: version 3.4.1, lower-cased, one caption a line. No Java.

Fitted to the original's answers: it was asked, as a black box, about nearly every character of the basic plane, short
strings over small alphabets, word lists and mutated captions, and rules were changed until the answers agreed.

It is a lexer. At every place each rule is tried, the longest match wins (the lookahead of a rule counts in its
length), and among equals the rule that stands first. Most captions never get there: pieces between spaces that hold
letters and a final mark are remembered, since no neighbour can change them.

Two contexts. The original reads all captions as one text, so the first word of the next caption can change the last
token of this one ("... sign that reads K." before "The dog" gives `k .`, before "two dogs" `k.`): "coco" does the
same. "line" tokenises every caption alone: its tokens never depend on its neighbours.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

Context = Literal["coco", "line"]

# What coco-caption throws away. Brackets survive it: lower-casing made -LRB- into -lrb-.
PUNCTUATION = frozenset(
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)


def tokenise(captions: Sequence[str], context: Context = "coco") -> list[list[str]]:
    """The tokens of every caption that scores are computed on: without punctuation."""
    return [[token for token in tokens if token not in PUNCTUATION] for tokens in ptb_tokens(captions, context)]


def tokenise_line(caption: str) -> list[str]:
    """The tokens of one caption, whatever stands around it."""
    return [token for token in _caption_tokens(_one_line(caption), "\n") if token not in PUNCTUATION]


def ptb_tokens(captions: Sequence[str], context: Context = "coco") -> list[list[str]]:
    """All tokens of every caption, punctuation too."""
    lines = [_one_line(caption) for caption in captions]
    if context == "line":
        return [_caption_tokens(line, "\n") for line in lines]
    following = [""] * len(lines)  # for every line the text that comes after it, as far as a lookahead can reach
    text = ""
    for number in range(len(lines) - 1, -1, -1):
        following[number] = text
        text = "\n" + lines[number] + text
        start = text.lstrip()
        text = text[: len(text) - len(start)][:2] + start[:_FURTHEST]
    return [_caption_tokens(line, after) for line, after in zip(lines, following, strict=True)]


_FURTHEST = 256  # characters of the next caption that can matter: a word that begins sentences, or a whole tag
_SEPARATORS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029\ud800-\udfff]")


def _one_line(caption: str) -> str:
    """A separator of lines inside a caption is a space: the original would shift all captions after it by one.

    So is half a surrogate pair, which is no character and could not be written to a file.
    """
    return _SEPARATORS.sub(" ", caption)


# --- captions of plain words --------------------------------------------------------------------------------------

_SELF_CONTAINED = re.compile(r"[^<.]+|[A-Za-z]{2,}\.|\.")  # no tag, and no period but a last one


@lru_cache(maxsize=1 << 18)
def _piece_tokens(piece: str) -> tuple[tuple[str, ...], bool] | None:
    """Tokens of what stands between two spaces, None where they depend on what follows.

    The flag says that such pieces may join with others of their kind, so a caption may have only one.
    """
    if _SELF_CONTAINED.fullmatch(piece) is None or _keeps_period(piece):
        return None
    return tuple(_scan(piece + " ", len(piece))), piece == "." or any(letter.isdigit() for letter in piece)


def _keeps_period(piece: str) -> bool:
    word = piece.removesuffix(".").lower()
    return word != piece.lower() and any(word in words for words in (_TITLES, _ENDING, _CAPITALISED, _BEFORE_NUMBER))


def _caption_tokens(caption: str, following: str) -> list[str]:
    tokens: list[str] = []
    alone = True
    for piece in caption.split(" "):
        if piece:
            known = _piece_tokens(piece)
            if known is None or not following or (known[1] and not alone):
                return list(_scan(caption + following, len(caption)))
            tokens += known[0]
            alone = alone and not known[1]
    return tokens


# --- characters ---------------------------------------------------------------------------------------------------


def _characters(*ranges: str) -> str:
    """`41-5a 61` as the inside of a character class."""
    return "".join(
        "-".join(re.escape(chr(int(end, 16))) for end in each.split("-")) for line in ranges for each in line.split()
    )


def _of_categories(*categories: str) -> str:
    """All characters of the basic plane in some categories of Unicode, as the inside of a character class."""
    inside = [unicodedata.category(chr(code)) in categories and not _NEWER.match(chr(code)) for code in range(0x10000)]
    edges = [code for code in range(0x10001) if (code < 0x10000 and inside[code]) != (code > 0 and inside[code - 1])]
    return "".join(f"{re.escape(chr(a))}-{re.escape(chr(b - 1))}" for a, b in zip(edges[::2], edges[1::2], strict=True))


# Letters that came into Unicode after the version of the original, which drops them.
_NEWER = re.compile(
    "["
    + _characters(
        "37f 528-52f 560 588 5ef 860-86a 870-88e 8a1 8ad-8c9 978 980 9fc af9 c34 c5a c5d c80 cdd d04 d54-d56 d5f",
        "de6-def e86 e89 e8c e8e-e93 e98 ea0 ea8-ea9 eac 13f5 13f8-13fd 16f1-16f8 170d 171f 1878 191d-191e 19b0-19c0",
        "19c8-19c9 1b4c 1c80-1c8a 1c90-1cba 1cbd-1cbf 1cf2-1cf3 1cfa 2c2f 2c5f 312e-312f 31bb-31bf 4db6-4dbf",
        "9fcd-9fff a698-a69d a78f a794-a79f a7ab-a7dc a7f2-a7f7 a8fd-a8fe a9e0-a9e4 a9e6-a9fe aa7e-aa7f ab30-ab5a",
        "ab5c-ab69 ab70-abbf",
    )
    + "]"
)
_LETTERS = _of_categories("Lu", "Ll", "Lt", "Lm", "Lo") + _characters("1885-1886")
_DIGITS = _of_categories("Nd")
_UPPER = _of_categories("Lu")
# Marks and signs that are letters to a word, though not to a compound.
_MARKS = _characters(
    "ad 2c2-2c5 2d2-2df 2e5-2eb 2ed 2ef-36f 375 378-379 384-385 3f6 483-487 55a-55f 591-5bd 5bf 5c1-5c2 5c4-5c5 5c7",
    "615-61a 64b-65e 670 6d6-6e4 6e7-6ed 6fd-6fe 70f 711 730-74c 7a6-7b0 7eb-7f3 900-903 93c 93e-94e 951-955 962-963",
    "981-983 9bc 9be-9c4 9c7-9c8 9cb-9cd 9d7 9e2-9e3 a01-a03 a3c a3e-a4f a81-a83 abc abe-acf b82 bbe-bc2 bc6-bc8",
    "bca-bcd c01-c03 c3e-c56 d3e-d44 d46-d48 e31 e34-e3a e47-e4e eb1 eb4-ebc ec8-ecd",
)
# Everything else that is a token of its own; what is in no class is dropped, and still parts words.
_SYMBOLS = _characters(
    "21-2f 3a-40 5b-60 7b-7e 80 91-94 96-97 a1-a9 ab-ac ae-b4 b6-b9 bb-bf d7 f7 37e 387 589 5be 5c0 5c3 5c6 5f3-5f4",
    "600-603 606-60c 614 61b 61e-61f 66a 66d 6d4 700-70d 7f6-7f8 964-965 e3f e4f 1fbd 2013-2023 2026 2030-203b",
    "203e-2042 2044 2070 2074-207e 2080-208e 20a0 20a4 20ac 2100-2101 2103-2106 2108-2109 2114 2116-2118 211e-2123",
    "2125 2127 2129 212e 213a-213b 2140-2144 214a-214d 214f 2153-215e 2190-2bff 3001-3002 3012 30fb ff01-ff0f",
    "ff1a-ff20 ff3b-ff40 ff5b-ff65 ffe0-ffe1 ffe5-ffe6",
)

# --- words with a rule of their own -------------------------------------------------------------------------------


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_TITLES = _listed(  # keep their period
    "cf dr ft lt mr ms mt ph st vs wm adj adm adv ave cie col cpl det drs ens gen gov hon jos maj mfg mme mrs mtg pfc "
    "pvt rep rev sen sfc sgt spc ste alex asst atty brig capt cmdr dept elec govs insp invt mlle msgr natl pres prof "
    "reps sens supt assoc comdr lieut messrs profs treas"
)
_ENDING = _listed(  # keep it, and the sentence may end with them: before a capital another period follows
    "al co ct ga jr ky md mo rd rt sq sr va vt ala apr aug bhd cos dak dec esq est etc ext feb fla fri inc ind jan jul "
    "jun kan ltd mar mon neb nev nov oct plc sep seq sys tel thu tue wed wis wyo ariz assn bldg blvd bros colo conn "
    "corp intl kans mich minn mont okla penn sept tenn tues univ wisc bancorp calif thurs "
    "pte pty ptes ptys ppte ppty pptes pptys"
)
_CAPITALISED = _listed("az la pa ark del ill ore tex mass miss wash")  # the same, when written with a capital
_BEFORE_NUMBER = _listed("ca no op pp art fig nos figs prop")  # keep it before a number
_STARTERS = _listed(  # begin a sentence: the letter before them was its last word, not an initial
    "A About According After An As At But Earlier He Her Here However If In It Last Many More Mr\\. Ms\\. Now Once "
    "One Other Our She Since So Some Such That The Their Then There These They This We What When While Yet You"
)


def _either(words: frozenset[str]) -> str:
    return "(?:" + "|".join(sorted(words, key=lambda word: (-len(word), word))) + ")"


# --- rules --------------------------------------------------------------------------------------------------------

_SPACE = r"[ \t\xa0\u2000-\u200a\u3000\r\n]"
_ENTITY = "&[aeiouAEIOU](?:acute|grave|uml);"
_LETTER = rf"(?:[{_LETTERS}{_MARKS}]|{_ENTITY})"
_WORD_PART = rf"{_LETTER}(?:[{_LETTERS}{_MARKS}{_DIGITS}]|{_ENTITY})*"
_WORD = rf"{_WORD_PART}(?:[.!?]{_WORD_PART})*"  # river.a is one word
_APOSTROPHE = "['’\x92]"
_SUFFIX = rf"{_APOSTROPHE}(?:[sSmMdD]|[lL][lL]|[rR][eE]|[vV][eE])"
_QUOTE = "['’\x92`‘\x91‛]"
_NOT = rf"[nN]{_QUOTE}[tT]"
_COMPOUND_PART = rf"(?:[dDoOlL]{_QUOTE}[{_LETTERS}{_DIGITS}]{{2,}}|[{_LETTERS}{_DIGITS}]+)"
_COMPOUND = rf"{_COMPOUND_PART}(?:[-_\u058a\u2010\u2011]{_COMPOUND_PART})*"  # t-shirt, a_b, 3d
_ACRONYM = r"[A-Za-z](?:\.[A-Za-z])+\."  # u.s.
_HYPHENATED = rf"[A-Za-z0-9][A-Za-z0-9.,\xad]*+(?:-(?:{_ACRONYM}|[A-Za-z0-9\xad]+))*-"  # u.s.-, 1.5-, non-
_NUMBER = rf"(?:[{_DIGITS}]+|[.:,\xad\u066b\u066c][{_DIGITS}]+)(?:[.:,\xad\u066b\u066c][{_DIGITS}]+)*"
_SLASHED_PART = r"[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}"
_ENDS = rf"(?:(?i:{_either(_ENDING)}|ph\.d)|(?=[A-Z])(?i:{_either(_CAPITALISED)}))\."
_TAG = (
    r"(?:<[!?][A-Za-z-][^>\r\n]*>|</[A-Za-z][A-Za-z0-9_:.-]* *>|<[A-Za-z][A-Za-z0-9_:.-]*"
    r"(?: +[A-Za-z][A-Za-z0-9_:.-]*(?: *= *(?:\"[^\"\r\n]*\"|'[^'\r\n]*'))?)* */?>)"
)
_START = rf"{_SPACE}+(?:(?=[A-Z])(?i:{_either(_STARTERS)})|{_TAG}){_SPACE}"
_URL = r"[^ \t\n\f\r\"<>|(){}"  # open: more may be excluded
_PATH = rf"(?:/{_URL}]+{_URL}.!?,-])?"


def _spaces_kept(token: str) -> str:
    return token.replace(" ", "\xa0").replace("(", "-lrb-").replace(")", "-rrb-")


def _dashes(token: str) -> str:
    return "--" if len(token) < 5 else token


class _Rule(NamedTuple):
    match: Callable[[str, int], re.Match[str] | None]
    give: Callable[[str], str] | None  # how the token is written
    back: int  # characters of the token that are read again
    needs: str  # text without it is not worth a try


def _rule(pattern: str, give: Callable[[str], str] | None = None, *, back: int = 0, needs: str = "") -> _Rule:
    """The token is group 1, what follows it in the pattern is lookahead."""
    return _Rule(re.compile(pattern).match, give, back, needs)


_MAIL = _rule(rf"(<?(?:mailto:)?[A-Za-z0-9]{_URL}]*@{_URL}.]+(?:\.{_URL}.]+)*>?)", str, needs="@")
_WORD_RULES = [  # for what begins with a letter or a digit
    _rule(r"([cC][aA][nN])[nN][oO][tT]"),
    _rule(r"([gG][oO][nN]|[wW][aA][nN])[nN][aA]"),
    _rule(r"([gG][oO][tT])[tT][aA]"),
    _rule(r"([lL][eE][mM]|[gG][iI][mM])[mM][eE]"),
    _rule(rf"({_WORD}){_SUFFIX}"),
    _rule(rf"([A-Za-z\xad]*[A-MO-Za-mo-z]\xad*){_NOT}"),
    _rule(rf"({_WORD})"),
    _rule(rf"({_NOT})"),
    _rule(rf"([lLdDjJ]{_APOSTROPHE}|(?i:ol|somethin){_APOSTROPHE})"),
    _rule(
        rf"([A-HJ-XZdlno]{_QUOTE}[{_LETTERS}]{{2,}}|[{_LETTERS}]+[aeiouyAEIOUY]{_QUOTE}[aeiouA-Z][{_LETTERS}]*|"
        rf"(?i:c{_APOSTROPHE}est|cap{_APOSTROPHE}n|c'mon|s'mores|e'er|li'l|nor'easter|o{_QUOTE}o))"
    ),
    _rule(rf"([yY]{_APOSTROPHE}){_LETTER}"),
    _rule(rf"([hH][tT][tT][pP][sS]?://{_URL}]+{_URL}.!?,-])", str, needs="://"),
    _rule(rf"([wW][wW][wW]\.(?:{_URL}.!?,]+\.)+[a-zA-Z]{{2,4}}{_PATH})", str, needs="."),
    _MAIL,
    _rule(rf"({_NUMBER})"),
    _rule(rf"([{_DIGITS}]{{1,2}}[-/][{_DIGITS}]{{1,2}}[-/][{_DIGITS}]{{2,4}})"),
    _rule(rf"((?:[{_DIGITS}]{{1,4}}[- \xa0])?[{_DIGITS}]{{1,4}}(?:\\?/|\u2044)[{_DIGITS}]{{1,4}})", _spaces_kept),
    _rule(rf"({_ACRONYM})(?:{_START}|\Z)", back=1),
    _rule(rf"([A-Za-z])\.{_START}"),
    _rule(rf"({_ACRONYM}|[A-Za-z]\.)"),
    _rule(rf"({_ENDS})(?:{_SPACE}(?:{_SPACE}|[{_UPPER}]|{_TAG})|\Z)", back=1),
    _rule(r"([cC][oO]\.) (?i:ltd|lim)"),
    _rule(rf"({_ENDS})[\s\S][\s\S]"),
    _rule(rf"({_ENDS}|(?i:{_either(_TITLES)})\.)"),
    _rule(rf"((?i:{_either(_BEFORE_NUMBER)})\.){_SPACE}?[{_DIGITS}]"),
    _rule(rf"({_COMPOUND})"),
    _rule(rf"({_HYPHENATED}{_ACRONYM})(?:{_START}|\Z)", back=1, needs="-"),
    _rule(rf"({_HYPHENATED}(?:{_ACRONYM}|[A-Za-z0-9\xad]+))", needs="-"),
    _rule(rf"({_SLASHED_PART}(?:\\?/{_SLASHED_PART}){{1,2}})"),
    _rule(rf"((?:{_WORD}|{_COMPOUND})\.)[,;:]", needs="."),
    _rule(rf"({_HYPHENATED}(?:{_ACRONYM}|[A-Za-z0-9\xad]+)\.)[,;:]", needs="-"),
    _rule(r"([A-Z]+(?:[&+][A-Z]+)+)"),
    _rule(r"([A-Z]+\$)"),
    _rule(r"([cCfF]#|[cC]\+\+)"),
    _rule(r"((?:[aA][nN][tT][iI]|[pP][rR][oO])-)"),
    _rule(
        rf"([{_LETTERS}{_DIGITS}]+(?:\.[{_LETTERS}{_DIGITS}]+)*\.(?i:bat|bmp|c|class|cgi|cpp|dll|docx?|exe|gif|gz|h|"
        r"html?|jar|java|jpe?g|mov|mp3|pdf|php|pl|png|ppt|ps|py|sql|tar|txt|wav|x|xml|zip))"
        rf"(?:{_SPACE}|[.?!,])"
    ),
]
_PHONE = _rule(
    r"((?:\([0-9]{2,3}\)[ \xa0]?|(?:\+\+?)?(?:[0-9]{2,4}[- \xa0])?[0-9]{2,4}[- \xa0])[0-9]{3,4}[- \xa0]?[0-9]{3,5}|"
    r"(?:\+\+?)?[0-9]{2,4}\.[0-9]{2,4}\.[0-9]{3,4}(?:\.[0-9]{3,5})?)",
    _spaces_kept,
)
_SITE = _rule(
    rf"((?:{_URL}.!?,`'_$\-0-9A-Z:;/@\[\]\\=^]+\.)+(?:[cC][oO][mM]|[nN][eE][tT]|[oO][rR][gG]|[eE][dD][uU]){_PATH})",
    str,
    needs=".",
)
_FACE = _rule(r"(\([-^x=~<>'][_.]?[-^x=~<>']\)|[-^x=~<>']_[-^x=~<>'])", _spaces_kept)
_WORD_RULES += [_PHONE, _SITE, _FACE]
_MARK_RULES = [  # for what begins otherwise
    _rule(rf"({_TAG})", lambda token: token.replace(" ", "\xa0"), needs=">"),
    _rule(r"(&[nN][bB][sS][pP];)", lambda token: ""),
    _rule(r"(&[aA][mM][pP];)", lambda token: "&"),
    _rule(r"(&[lL][tT];)", lambda token: "<"),
    _rule(r"(&[gG][tT];)", lambda token: ">"),
    _rule(r"(&[mn]dash;)", lambda token: "--"),
    _rule(r"(\"|&quot;)[A-Za-z0-9$]", lambda token: "``"),
    _rule(r"(\"|&quot;)", lambda token: "''"),
    _rule(r"(&apos;)", lambda token: "'"),
    _rule(r"(&#[0-9]+;|&(?i:quot|apos);)"),
    _rule(rf"({_WORD})"),
    _rule(rf"({_SUFFIX})[^A-Za-z]"),
    _rule(r"('[tT])(?:[iI][sS]|[wW][aA][sS])"),
    _rule(
        rf"({_APOSTROPHE}[nN]{_APOSTROPHE}?|{_APOSTROPHE}[2-9]0[sS]|"
        rf"{_APOSTROPHE}(?:[eE][mM]|[tT][iI][lL][lL]?|[cC][aA][uU][sS][eE]))"
    ),
    _rule(rf"({_APOSTROPHE}[{_DIGITS}][{_DIGITS}]){_SPACE}"),
    _rule(r"(')[A-Za-z][^ \t\xa0\r\n]", lambda token: "`"),
    _rule(rf"({_SUFFIX})"),
    _rule(rf"([+-]{_NUMBER}|{_NUMBER})"),
    _PHONE,
    _SITE,
    _MAIL,
    _rule(r"(@[A-Za-z_][A-Za-z_0-9]*|@+)"),
    _rule(rf"(#[{_LETTERS}{_MARKS}]+|#+)", str),
    _rule(r"([<>]?[:;=][-o*']?[()DPpdO\\{@|\[\]])[^A-Za-z0-9]", _spaces_kept),
    _FACE,
    _rule(r"([\u207a\u207b\u208a\u208b]?(?:[\u2070\xb9\xb2\xb3\u2074-\u2079]+|[\u2080-\u2089]+))"),
    _rule(r"(-[lLrR][rRcCsS][bB]-)"),
    _rule(r"(-{2,})", _dashes),
    _rule(r"(\.{3,5}|(?:\.[ \xa0]){2,4}\.)", lambda token: "..."),
    _rule(r"([`\x91-\x94\u2018-\u201f‹›«»]{2})", lambda token: "".join(_GIVEN.get(each, each) for each in token)),
    _rule(r"([!?]+|\*+|(?:\\\*)+|_+|<<|>>|''|``)"),
]
_GIVEN: dict[str, str] = {
    "(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-",
    "\x91": "`", "‘": "`", "‛": "`", "‹": "`", "\x92": "'", "’": "'", "›": "'",
    "\x93": "``", "“": "``", "«": "``", "\x94": "''", "”": "''", "»": "''",
    "\x96": "--", "\x97": "--", "–": "--", "—": "--", "―": "--",
    "…": "...", "£": "#", "\x80": "$", "¤": "$", "₠": "$", "€": "$", "¢": "cents",
    "¼": "1/4", "½": "1/2", "¾": "3/4", "⅓": "1/3", "⅔": "2/3",
}  # fmt: skip
_BEGINS_WORD = re.compile(rf"[{_LETTERS}{_MARKS}{_DIGITS}]")
_BEGINS_MARK = re.compile(rf"[{_SYMBOLS}\u066b\u066c]")
_IS_SYMBOL = re.compile(rf"[{_SYMBOLS}]")


def _scan(text: str, end: int) -> Iterator[str]:
    """The tokens that begin before `end`; what stands behind it is lookahead."""
    word_rules, mark_rules = ([rule for rule in rules if rule.needs in text] for rules in (_WORD_RULES, _MARK_RULES))
    place = 0
    while place < end:
        if _BEGINS_WORD.match(text, place):
            rules = word_rules
        elif _BEGINS_MARK.match(text, place):
            rules = mark_rules
        else:
            place += 1  # a space, or a character that the original drops
            continue
        furthest, best, chosen = place, None, None
        for rule in rules:
            match = rule.match(text, place)
            if match is not None and match.end() > furthest:
                furthest, best, chosen = match.end(), match, rule
        single = text[place]
        if best is None or chosen is None or (furthest == place + 1 and single in _GIVEN):
            place += 1
            if _IS_SYMBOL.match(single):
                yield _GIVEN.get(single, single)
            continue
        token = chosen.give(best.group(1)) if chosen.give else _spelled(best.group(1))
        place = best.end(1) - chosen.back
        if token:
            yield token.lower()


def _spelled(token: str) -> str:
    """As the original writes it: soft hyphens fall away, an apostrophe before a contraction becomes straight."""
    token = token.replace("\xad", "") or "-"
    if _CONTRACTION.fullmatch(token):
        token = token.translate(_STRAIGHT)
    return token


_CONTRACTION = re.compile(rf"{_SUFFIX}|{_NOT}")
_STRAIGHT = {ord("’"): "'", 0x92: "'", ord("‘"): "`", 0x91: "`", ord("‛"): "`"}
