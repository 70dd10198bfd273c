"""Evidence as one HTML file that works from a disk, without a network: `page.js` draws it, `page.css` dresses it.

Words and names come from strangers. Text is escaped; data stands in a script element that is no script, with every `<`
written as a number; and the page's own policy lets no script run but the one whose hash it names.
"""

import base64
import hashlib
import io
import json
import os
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image

from watchword.explain.attention import Evidence, ShotEvidence
from watchword.explain.frames import Pictures
from watchword.explain.overlay import Picture
from watchword.explain.peaks import glance, main_head, moments_of, told
from watchword.video import browser_type, probe

HERE = Path(__file__).parent
EMBEDDED_BYTES = 6_000_000   # a larger film is linked: the page must open on a phone
FRAMES = 480                 # pictures in a page, of all shots together ...
FRAMES_A_SHOT = 40           # ... and of one
PIXELS = 270                 # of a picture's shorter side; half where there are many


@dataclass(frozen=True)
class Played:
    """The film as the page has it: its bytes, or where it lies; neither where browsers cannot play it."""

    kind: str = ""
    content: bytes = b""
    link: str = ""
    has_sound: bool = False


def make_page(evidence: Evidence, film: Path, target: Path) -> str:
    """The page's text; `target` is where it will lie: the link to a film that is too large to embed starts there."""
    most = max(1, min(FRAMES_A_SHOT, FRAMES // max(len(evidence.shots), 1)))
    seconds = [one for shot in evidence.shots for one in moments_of(shot, most)]
    pictures = Pictures.read(film, seconds, PIXELS if len(seconds) <= 2 * FRAMES_A_SHOT else PIXELS // 2)
    return page(evidence, pictures, played(film, target))


def played(film: Path, target: Path) -> Played:
    """A small film is embedded, a large one linked; one that browsers do not play is shown by its frames."""
    kind = browser_type(film)
    if not kind:
        return Played()
    sound = probe(film).has_audio
    if film.stat().st_size <= EMBEDDED_BYTES:
        return Played(kind, film.read_bytes(), has_sound=sound)
    link = quote(Path(os.path.relpath(film.resolve(), target.resolve().parent)).as_posix())
    return Played(kind, link=link, has_sound=sound)


def page(evidence: Evidence, pictures: Pictures, film: Played) -> str:
    script, style = ((HERE / name).read_text("utf-8") for name in ("page.js", "page.css"))
    only_this = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{only_this}'; style-src 'unsafe-inline'; img-src data:; "
        "media-src blob: file: 'self'; base-uri 'none'; form-action 'none'"
    )
    width, height = pictures.size
    data = evidence.values() | {
        "size": [width, height],
        "seconds": pictures.seconds.tolist(),
        "frames": [_jpeg(picture) for picture in pictures.pictures],
        "link": film.link,
        "sound": film.has_sound,
    }
    data["shots"] = [values | _told(shot) for values, shot in zip(data["shots"], evidence.shots, strict=True)]
    many = len(evidence.shots) > 1
    shots = "\n".join(_shot(number, shot, many) for number, shot in enumerate(evidence.shots))
    viewer = _viewer(width, height)
    if not evidence.shots:
        body = "<p>Nothing was sure enough to be said about this film.</p>"
    elif many:
        body = f'<div class="viewer-and-shots">{viewer}<div class="shots">{shots}</div></div>'
    else:
        body = f"{shots}\n{viewer}\n{_table(evidence.shots[0])}"
    kept = ""
    if film.content:
        content = base64.b64encode(film.content).decode()
        kept = f'<script type="text/plain" id="film" data-kind="{escape(film.kind)}">{content}</script>'
    name, captioner = escape(evidence.film), escape(evidence.captioner)
    return f"""<!doctype html>
<html lang="en" class="no-script">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="watchword explain">
<title>{name}, explained</title>
<style>
{style}</style>
</head>
<body>
<main{' class="many"' if many else ""}>
<header>
<h1>{name}</h1>
<p class="faint">{evidence.seconds:.1f} s, described by <b>{captioner}</b>. Choose a word to see when and where it
looked; the line under a word is the stronger, the likelier the word was.</p>
</header>
<noscript><p>Without scripts this page shows sentences and tables only.</p></noscript>
{body}
</main>
<script type="application/json" id="evidence">{_as_data(data)}</script>
{kept}
<script>{script}</script>
</body>
</html>
"""


def _viewer(width: int, height: int) -> str:
    """What the script fills: hidden until it does."""
    return f"""<section class="viewer" hidden aria-label="What the chosen word looked at">
<div>
<div class="stage" style="--wide: {width}; --high: {height}"><img alt=""><canvas aria-hidden="true"></canvas></div>
<p class="told" role="status" aria-live="polite"></p>
<div class="controls">
<button type="button" class="play">Play</button>
<input type="range" class="seek" min="0" max="1" step="0.05" value="0" aria-label="Moment of the film">
<output class="shown"></output>
<label class="sound" hidden><input type="checkbox"> Sound</label>
</div>
</div>
<div class="extra">
<fieldset class="heads" hidden></fieldset>
<figure class="timeline" hidden></figure>
<div class="all-bars" aria-live="polite"></div>
<figure class="frames-figure"><figcaption>The moments it looked at most</figcaption><div class="frames"></div></figure>
</div>
</section>"""


def _shot(number: int, shot: ShotEvidence, many: bool) -> str:
    words = "".join(
        f'<li><button type="button" class="word" disabled aria-pressed="false" data-shot="{number}" '
        f'data-word="{place}" style="--sure: {one.probability:.3f}">{escape(one.word)}</button></li>'
        for place, one in enumerate(shot.words)
    )
    time = f"{_clock(shot.start)} to {_clock(shot.end)}"
    return f"""<section class="shot" data-shot="{number}" aria-labelledby="shot-{number}">
<div class="shot-head"><h2 id="shot-{number}">{time if many else "What it said"}</h2>
<small>{shot.confidence:.0%} sure</small></div>
<ol class="sentence" aria-label="{escape(shot.sentence)}">{words}</ol>
{_table(shot) if many else ""}
</section>"""


def _table(shot: ShotEvidence) -> str:
    """The same for people who read, or hear, instead of look."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in shot.heads)
    heads += "".join(f'<th scope="col">{escape(bars.title)}</th>' for bars in shot.bars)
    rows = []
    for number, one in enumerate(shot.words):
        cells = [f"{one.probability:.0%}", *(told(shot, name, number) for name in shot.heads)]
        for bars in shot.bars:
            pairs = zip(bars.names, bars.weights[number], strict=True)
            cells.append(", ".join(f"{name} {weight:.0%}" for name, weight in pairs))
        columns = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{escape(one.word)}</th>{columns}</tr>')
    chosen = "; ".join(
        f"{mark.kind.replace('_', ' ')} at {mark.seconds:.1f} s" for mark in shot.marks if mark.word is None
    )
    note = f"<p>{escape(chosen)}</p>" if chosen else ""
    return f"""<details><summary>The same as text</summary><div class="wide"><table>
<thead><tr><th scope="col">word</th><th scope="col">likely</th>{heads}</tr></thead>
<tbody>{"".join(rows)}</tbody></table></div>{note}</details>"""


def _told(shot: ShotEvidence) -> dict[str, Any]:
    """What the script would otherwise have to reckon again: the sentence and the moment of each glance."""
    words = range(len(shot.words))
    return {
        "main": main_head(shot),
        "told": {name: [told(shot, name, word) for word in words] for name in shot.heads},
        "glances": {name: [round(glance(shot, name, word).seconds, 3) for word in words] for name in shot.heads},
    }


def _as_data(values: Any) -> str:
    """JSON that cannot end the element in which it stands, whatever its strings hold."""
    text = json.dumps(values, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _jpeg(picture: Picture) -> str:
    content = io.BytesIO()
    Image.fromarray(picture).save(content, "JPEG", quality=72)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}:{rest:04.1f}"
