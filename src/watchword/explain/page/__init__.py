"""An explanation as one HTML file that works offline: `attention.js` and `page.js` draw it, `page.css` styles it.

Text is escaped; data stands in a JSON element, with every `<` as an escape; the page's policy lets only the script run
whose hash it names. `attention.js` is also served to the server's page.
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

from watchword.captioning.confidence import in_words
from watchword.explain.attention import (
    Explanation,
    SegmentExplanation,
    flat_notes,
    frame_times,
    main_head,
    peak,
    peak_text,
)
from watchword.explain.overlay import FrameSet, Picture
from watchword.video import browser_type, probe

HERE = Path(__file__).parent
EMBEDDED_BYTES = 6_000_000  # a larger video is linked: the page must open on a phone
FRAMES = 480  # pictures in a page, of all segments together ...
FRAMES_A_SEGMENT = 40  # ... and of one
PIXELS = 270  # of a picture's shorter side; half where there are many


@dataclass(frozen=True)
class Played:
    """The video in the page: its bytes or a link; neither where browsers cannot play it."""

    kind: str = ""
    content: bytes = b""
    link: str = ""
    has_sound: bool = False


def make_page(explanation: Explanation, video: Path, target: Path) -> str:
    """The HTML; a link to a video that is too large to embed is relative to `target`."""
    most = max(1, min(FRAMES_A_SEGMENT, FRAMES // max(len(explanation.segments), 1)))
    seconds = [one for segment in explanation.segments for one in frame_times(segment, most)]
    pictures = FrameSet.read(video, seconds, PIXELS if len(seconds) <= 2 * FRAMES_A_SEGMENT else PIXELS // 2)
    return page(explanation, pictures, played(video, target))


def played(video: Path, target: Path) -> Played:
    """A small video is embedded, a large one linked; frames stand in for one that browsers do not play."""
    kind = browser_type(video)
    if not kind:
        return Played()
    sound = probe(video).has_audio
    if video.stat().st_size <= EMBEDDED_BYTES:
        return Played(kind, video.read_bytes(), has_sound=sound)
    link = quote(Path(os.path.relpath(video.resolve(), target.resolve().parent)).as_posix())
    return Played(kind, link=link, has_sound=sound)


def page(explanation: Explanation, pictures: FrameSet, video: Played) -> str:
    viewer, page, style = ((HERE / name).read_text("utf-8") for name in ("attention.js", "page.js", "page.css"))
    script = viewer.replace("export ", "") + page  # one script: a page from a disk cannot load modules
    only_this = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{only_this}'; style-src 'unsafe-inline'; img-src data:; "
        "media-src blob: file: 'self'; base-uri 'none'; form-action 'none'"
    )
    width, height = pictures.size
    data = explanation.values() | {
        "size": [width, height],
        "seconds": pictures.seconds.tolist(),
        "frames": [_jpeg(picture) for picture in pictures.pictures],
        "link": video.link,
        "sound": video.has_sound,
    }
    data["segments"] = [
        values | _peaks(segment) for values, segment in zip(data["segments"], explanation.segments, strict=True)
    ]
    many = len(explanation.segments) > 1
    segments = "\n".join(_segment(number, segment, many) for number, segment in enumerate(explanation.segments))
    stage = _viewer(width, height)
    if not explanation.segments:
        body = "<p>No caption of this video is confident enough.</p>"
    elif many:
        body = f'<div class="viewer-and-segments">{stage}<div class="segments">{segments}</div></div>'
    else:
        body = f"{segments}\n{stage}\n{_table(explanation.segments[0])}"
    kept = ""
    if video.content:
        content = base64.b64encode(video.content).decode()
        kept = f'<script type="text/plain" id="video" data-kind="{escape(video.kind)}">{content}</script>'
    name, captioner = escape(explanation.video), escape(explanation.captioner)
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
<p class="faint">{explanation.seconds:.1f} s, described by <b>{captioner}</b>. Choose a word to see its attention over
time and space. The line under a word shows its probability.</p>
</header>
<noscript><p>Without JavaScript this page shows captions and tables only.</p></noscript>
{body}
</main>
<script type="application/json" id="explanation">{_as_data(data)}</script>
{kept}
<script>{script}</script>
</body>
</html>
"""


def _viewer(width: int, height: int) -> str:
    """Filled by the script, hidden until then."""
    return f"""<section class="viewer" hidden aria-label="Attention of the chosen word">
<div>
<div class="stage" style="--wide: {width}; --high: {height}"><img alt=""><canvas aria-hidden="true"></canvas></div>
<p class="peak-text" role="status" aria-live="polite"></p>
<div class="controls">
<button type="button" class="play">Play</button>
<input type="range" class="seek" min="0" max="1" step="0.05" value="0" aria-label="Time in the video">
<output class="shown"></output>
<label class="sound" hidden><input type="checkbox"> Sound</label>
</div>
</div>
<div class="extra">
<fieldset class="heads" hidden></fieldset>
<figure class="timeline" hidden></figure>
<div class="all-bars" aria-live="polite"></div>
<figure class="frames-figure"><figcaption>Frames with the largest weights</figcaption>
<div class="frames"></div></figure>
</div>
</section>"""


def _segment(number: int, segment: SegmentExplanation, many: bool) -> str:
    words = "".join(
        f'<li><button type="button" class="word" disabled aria-pressed="false" data-segment="{number}" '
        f'data-word="{location}" style="--sure: {one.probability:.3f}">{escape(one.word)}</button></li>'
        for location, one in enumerate(segment.words)
    )
    flat = "".join(f'<p class="faint">{escape(line)}.</p>' for line in flat_notes(segment))
    time = f"{_clock(segment.start)} to {_clock(segment.end)}"
    return f"""<section class="segment" data-segment="{number}" aria-labelledby="segment-{number}">
<div class="segment-head"><h2 id="segment-{number}">{time if many else "Caption"}</h2>
<small>{in_words(segment.confidence)}</small></div>
<ol class="caption" aria-label="{escape(segment.caption)}">{words}</ol>
{flat}{_table(segment) if many else ""}
</section>"""


def _table(segment: SegmentExplanation) -> str:
    """The same as text, for screen readers too."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in segment.heads)
    heads += "".join(f'<th scope="col">{escape(bars.title)}</th>' for bars in segment.bars)
    rows = []
    for number, one in enumerate(segment.words):
        cells = [f"{one.probability:.0%}", *(peak_text(segment, name, number) for name in segment.heads)]
        for bars in segment.bars:
            pairs = zip(bars.names, bars.weights[number], strict=True)
            cells.append(", ".join(f"{name} {weight:.0%}" for name, weight in pairs))
        columns = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{escape(one.word)}</th>{columns}</tr>')
    chosen = "; ".join(
        f"{mark.kind.replace('_', ' ')} at {mark.seconds:.1f} s" for mark in segment.marks if mark.word is None
    )
    note = f"<p>{escape(chosen)}</p>" if chosen else ""
    return f"""<details><summary>The same as text</summary><div class="wide"><table>
<thead><tr><th scope="col">word</th><th scope="col">probability</th>{heads}</tr></thead>
<tbody>{"".join(rows)}</tbody></table></div>{note}</details>"""


def _peaks(segment: SegmentExplanation) -> dict[str, Any]:
    """What the script need not compute again: the text and the time of each peak."""
    words = range(len(segment.words))
    return {
        "main": main_head(segment),
        "texts": {name: [peak_text(segment, name, word) for word in words] for name in segment.heads},
        "peaks": {name: [round(peak(segment, name, word).seconds, 3) for word in words] for name in segment.heads},
    }


def _as_data(values: Any) -> str:
    """JSON that cannot end its script element, whatever its strings hold."""
    text = json.dumps(values, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _jpeg(picture: Picture) -> str:
    content = io.BytesIO()
    Image.fromarray(picture).save(content, "JPEG", quality=72)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}:{rest:04.1f}"
