"""Whether browsers can play a film as it is."""

from pathlib import Path

from watchword.media.opening import opened, video_stream

# What every current browser plays, without asking the machine for a licence: container -> its type, codecs of pictures.
PLAYABLE = {
    "mov,mp4,m4a,3gp,3g2,mj2": ("video/mp4", {"h264"}),
    "matroska,webm": ("video/webm", {"vp8", "vp9"}),
}
PIXELS = {"yuv420p", "yuvj420p"}  # others, ten bits or fuller colour, play on some machines only


def browser_type(path: Path) -> str:
    """The MIME type to give to a browser, such as video/mp4; "" where it is not to be counted on."""
    with opened(path) as container:
        context = video_stream(path, container).codec_context
        kind, codecs = PLAYABLE.get(container.format.name, ("", set[str]()))
        good = context.codec.canonical_name in codecs and context.pix_fmt in PIXELS
        if kind == "video/webm" and path.suffix.lower() == ".mkv":
            good = False  # matroska is read as webm is, and played by some
        return kind if good else ""
