"""A description as a notebook shows it: sentences, how sure they are, and when each word was read off. No scripts."""

from html import escape

from watchword.captioning.description import Description, Sentence, Shot
from watchword.captioning.writers import clock, is_whole

SHOTS_SHOWN = 200


def as_html(description: Description) -> str:
    about = escape(f"{clock(description.seconds)}, {description.captioner}")
    title = f"<b>{escape(description.film.name)}</b> <small>{about}</small>"
    if not description.shots:
        return f"<div>{title}<br><i>nothing sure enough to be said</i></div>"
    if is_whole(description):
        others = "".join(f"<li>{_said(sentence)}</li>" for sentence in description.alternatives)
        return f"<div>{title}<br>{_said(description.shots[0].best)}{f'<ul>{others}</ul>' if others else ''}</div>"
    rows = "".join(_row(shot) for shot in description.shots[:SHOTS_SHOWN])
    more = len(description.shots) - SHOTS_SHOWN
    rest = f"<small>and {more} more</small>" if more > 0 else ""
    return f"<div>{title}<table>{rows}</table>{rest}</div>"


def _row(shot: Shot) -> str:
    return f"<tr><td><code>{clock(shot.start)}&ndash;{clock(shot.end)}</code></td><td>{_said(shot.best)}</td></tr>"


def _said(sentence: Sentence) -> str:
    """Words fade with their probability; the pointer shows when in the film each looked."""
    words = []
    for word in sentence.words:
        looked = ", ".join(f"{stream} at {seconds:.1f} s" for stream, seconds in word.seconds.items())
        hint = escape(f"{word.probability:.0%}" + (f"; {looked}" if looked else ""), quote=True)
        style = f"opacity:{0.45 + 0.55 * word.probability:.2f}"
        words.append(f'<span title="{hint}" style="{style}">{escape(word.text)}</span>')
    return f"{' '.join(words)} <small>{sentence.confidence:.0%} sure</small>"
