"""`watchword bias`: how few words most of a corpus is made of (Fig. 1a of Dong et al. 2018)."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from PIL.Image import Image

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
BARS = 16
INK, PALE, STRONG, FAINT = (40, 40, 44), (250, 249, 246), (42, 110, 164), (200, 205, 210)


def bias(
    captions: Annotated[Path, typer.Argument(help="A file or folder of captions, see docs/reference/formats.md")],
    split: Annotated[str, typer.Option(help="The split whose captions are counted.")] = "train",
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words said less often.")] = 1,
    output: Annotated[Path | None, typer.Option(help="Draw the chart into this .png")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures for a program.")] = False,
) -> None:
    """Show how much of a corpus its most frequent words take, and of how many videos words are said.

    watchword bias data/shapes --output bias.png
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.data.annotations import read_annotations
    from watchword.text.counts import count_words

    clips = [clip for clip in read_annotations(captions) if clip.split == split]
    if not clips:
        raise WatchwordError(f"{captions} has no {split} videos")
    found = word_bias(count_words({clip.video: clip.captions for clip in clips}), min_count)
    if output is not None:
        try:
            draw(found).save(output)
        except (OSError, ValueError) as error:  # ValueError: a picture format that there is not
            raise WatchwordError(f"cannot write {output}: {error}") from error
    if as_json:
        print(json.dumps(found))
        return
    title = f"{split}: {found['words']:,} different words, {found['said']:,} said, {found['videos']:,} videos"
    table = Table("most frequent words", "of them", "share of all that is said", title=title, title_justify="left")
    for row in found["shares"]:
        table.add_row(f"{row['of_words']:.0%}", f"{row['words']:,}", f"{row['of_said']:.1%}")
    Console().print(table)
    table = Table("rank", "word", "said", "of videos")
    for row in found["bars"]:
        table.add_row(f"{row['rank']:,}", row["word"], f"{row['said']:,}", f"{row['videos']:,}")
    Console().print(table)


def word_bias(counts: Any, min_count: int) -> dict[str, Any]:
    """The figures behind the chart; words stand by how often they are said."""
    from collections import Counter

    import numpy as np

    from watchword.text.counts import videos_with

    times: Counter[str] = Counter()
    for own in counts.values():
        times.update(own.times)
    videos = videos_with(counts)
    words = sorted((word for word in times if times[word] >= min_count), key=lambda word: (-times[word], word))
    if not words:
        raise WatchwordError(f"no word is said {min_count} times: lower --min-count")
    said = sum(times[word] for word in words)
    shares = []
    for share in SHARES:
        most = max(1, round(share * len(words)))
        shares.append({"of_words": share, "words": most, "of_said": sum(times[word] for word in words[:most]) / said})
    ranks = np.unique(np.geomspace(1, len(words), BARS).round().astype(int)).tolist()
    bars = [
        {"rank": rank, "word": words[rank - 1], "said": times[words[rank - 1]], "videos": videos[words[rank - 1]]}
        for rank in ranks
    ]
    return {"words": len(words), "said": said, "videos": len(counts), "shares": shares, "bars": bars}


def draw(found: dict[str, Any]) -> "Image":
    """Two pies, the top 5 % of the vocabulary and what it takes of all that is said; bars, videos with a word."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (900, 760), PALE)
    pen, font, small = ImageDraw.Draw(picture), ImageFont.load_default(18), ImageFont.load_default(14)
    top = next(row for row in found["shares"] if row["of_words"] == 0.05)
    pies = ((f"{found['words']:,} different words", 0.05), (f"{found['said']:,} words said", top["of_said"]))
    for left, (title, share) in zip((90, 530), pies, strict=True):
        box = (left, 60, left + 260, 320)
        pen.pieslice(box, -90 + 360 * share, 270, fill=FAINT)
        pen.pieslice(box, -90, -90 + 360 * share, fill=STRONG)
        pen.text((left + 130, 30), title, font=font, fill=INK, anchor="mm")
        pen.text((left + 130, 340), f"top 5 % of words: {share:.1%}", font=small, fill=INK, anchor="mm")
    pen.text((450, 392), f"videos of which a word is said, of {found['videos']:,}", font=font, fill=INK, anchor="mm")
    bars, floor, height = found["bars"], 690, 260
    width = 840 / len(bars)
    for number, row in enumerate(bars):
        side, up = 30 + number * width, height * row["videos"] / found["videos"]
        pen.rectangle((side + 4, floor - up, side + width - 4, floor), fill=STRONG)
        pen.text((side + width / 2, floor - up - 10), f"{row['videos']:,}", font=small, fill=INK, anchor="mm")
        pen.text((side + width / 2, floor + 14), row["word"][:9], font=small, fill=INK, anchor="mm")
        pen.text((side + width / 2, floor + 32), f"#{row['rank']:,}", font=small, fill=(120, 120, 126), anchor="mm")
    return picture
