"""`watchword shapes DIR`: draw a data set of films."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from PIL.Image import Image

    from watchword.research.shapes import Film

SHEET_FILMS = 10


def shapes(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="where the data set goes; made if it is not there")],
    films: Annotated[int, typer.Option(help="how many; of ten, seven train, one validates, two test")] = 500,
    seed: Annotated[int, typer.Option(help="the same seed draws the same films")] = 0,
    frames: Annotated[int, typer.Option(help="frames of a film, eight a second")] = 16,
    size: Annotated[int, typer.Option(help="pixels of a side, a multiple of 16")] = 64,
    distractors: Annotated[int, typer.Option(help="objects that nobody speaks of")] = 2,
    event: Annotated[str, typer.Option(help="anywhere in the film, or the whole of it")] = "anywhere",
    longest_event: Annotated[float, typer.Option(help="share of the film that an event takes at most")] = 2 / 3,
    outside: Annotated[str, typer.Option(help="the subject outside its event: at rest, or hidden")] = "rest",
    actions: Annotated[str, typer.Option(help="only these, such as moves,appears,vanishes")] = "",
    streams: Annotated[
        str,
        typer.Option(help="of appearance, appearance_grid, regions, motion, scene, movement, moving_regions, layer1 "
                     "to layer3; or all"),
    ] = "appearance,regions,motion",
    videos: Annotated[bool, typer.Option("--videos", help="films as videos/*.mp4 too, with captions.csv")] = False,
    sheet: Annotated[Path | None, typer.Option(help="a picture (.png) of the first films, to look at")] = None,
) -> None:
    """Draw films of coloured shapes, with captions, features and the truth about them.

    watchword shapes data/shapes --films 500

    watchword shapes data/order --actions moves,appears,vanishes --streams appearance_grid --sheet order.png
    """
    from watchword.cli._progress import bar, console
    from watchword.research.shapes import STREAMS, ShapesConfig, write_shapes

    config = ShapesConfig(
        seed=seed, films=films, frames=frames, size=size, distractors=distractors, regions=max(8, distractors + 2),
        event=event, longest_event=longest_event, outside=outside,
        actions=tuple(word.strip() for word in actions.split(",") if word.strip()),
    )  # fmt: skip
    wanted = STREAMS if streams == "all" else tuple(word.strip() for word in streams.split(",") if word.strip())
    shown: list[Film] = []
    rows: list[tuple[str, str, str]] = []
    with bar() as progress:
        task = progress.add_task("drawing films", total=films)

        def each(film: "Film") -> None:
            if videos:
                write_video(folder / "videos" / f"{film.video}.mp4", film, config.frames_per_second)
                rows.extend((f"{film.video}.mp4", caption, film.split) for caption in film.captions)
            if sheet and len(shown) < SHEET_FILMS:
                shown.append(film)
            progress.advance(task)

        write_shapes(folder, config, wanted, each)
    try:
        if videos:
            with (folder / "captions.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([("video", "caption", "split"), *rows])
        if sheet:
            contact_sheet(shown).save(sheet)
    except (OSError, ValueError) as error:  # ValueError: a picture format that there is not
        raise WatchwordError(f"cannot write {sheet or folder}: {error}") from error
    console.print(f"{films} films in {folder}" + (f", a picture of the first {len(shown)} in {sheet}" if sheet else ""))


def write_video(path: Path, film: "Film", frames_per_second: float) -> None:
    """One film as h264 in mp4, which every player and `videos/` of a person's own folder take."""
    from fractions import Fraction

    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(frames_per_second).limit_denominator(1000))
        stream.height, stream.width = film.pictures.shape[1:3]
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "12", "preset": "veryfast"}  # small pictures: keep the textures
        for picture in film.pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


def contact_sheet(films: "list[Film]", columns: int = 8, side: int = 128) -> "Image":
    """Films as strips: a bar under the frames of the event, a box around the subject in them, two captions below."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    gap, text, accent, ink = 6, 46, (230, 110, 20), (40, 40, 44)
    height = side + 12 + text
    sheet = Image.new("RGB", (gap + columns * (side + gap), gap + len(films) * (height + gap)), (250, 249, 246))
    draw, font, small = ImageDraw.Draw(sheet), ImageFont.load_default(17), ImageFont.load_default(13)
    for row, film in enumerate(films):
        top = gap + row * (height + gap)
        start, end = film.truth.event
        for column, moment in enumerate(np.linspace(0, len(film.times) - 1, columns).round().astype(int)):
            left = gap + column * (side + gap)
            picture = Image.fromarray(film.pictures[moment]).resize((side, side), Image.Resampling.BICUBIC)
            sheet.paste(picture, (left, top))
            if start <= moment < end:
                draw.rectangle((left, top + side + 3, left + side - 1, top + side + 7), fill=accent)
                if film.truth.visible[moment, film.truth.subject]:
                    x0, y0, x1, y1 = film.truth.boxes[moment, film.truth.subject] * side
                    draw.rectangle((left + x0 - 2, top + y0 - 2, left + x1 + 1, top + y1 + 1), outline=accent, width=2)
        draw.text((gap + 2, top + side + 11), film.captions[0], font=font, fill=ink)
        others = "   ·   ".join(film.captions[1:3])
        draw.text((gap + 2, top + side + 34), others, font=small, fill=(120, 120, 126))
        note = f"{film.video}, {film.split}"
        draw.text((sheet.width - gap - 2, top + side + 13), note, font=small, fill=(120, 120, 126), anchor="ra")
    return sheet
