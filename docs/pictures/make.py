"""Pictures for the documents: the example video, the web page and the explain page. Needs chromium and playwright.

    python docs/pictures/make.py
    python docs/pictures/make.py example      # the frames of the example video alone, without a browser

The car is the video of `watchword describe --example`; the others are drawn by `watchword research shapes`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from watchword.cli.describe import example_video
from watchword.video import Squash, Uniform, read_frames

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PICTURES = Path(__file__).parent
QUALITY = 85
GAP = 6  # pixels between frames
DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
NAME = "carphone.mp4"


def draw_example() -> None:
    """Four frames side by side."""
    frames = read_frames(example_video(), Uniform(4), Squash(240, 196)).pictures  # (4, 196, 240, 3)
    strip = np.full((196, 4 * 240 + 3 * GAP, 3), 255, np.uint8)
    for number, frame in enumerate(frames):
        left = number * (240 + GAP)
        strip[:, left : left + 240] = frame
    Image.fromarray(strip).save(PICTURES / "example.jpg", quality=QUALITY)


def watchword(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "watchword", *map(str, words)], check=True)


@contextmanager
def serving() -> Iterator[str]:
    """The address of a server with the library of WATCHWORD_LIBRARY."""
    command = [sys.executable, "-m", "watchword", "serve", "--port", "0", "--model", "base"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found
        try:
            yield found.group()
        finally:
            server.terminate()


def shown(browser: "Browser", address: str, viewport: dict[str, int], scheme: str, scale: float = 1.0) -> "Page":
    options = {"color_scheme": scheme, "reduced_motion": "reduce", "device_scale_factor": scale, "bypass_csp": True}
    page: Page = browser.new_context(viewport=viewport, **options).new_page()  # type: ignore[arg-type]
    page.goto(address)
    return page


def save(page: "Page", name: str, whole: bool = False) -> None:
    loaded = "[...document.images].filter((one) => one.offsetParent).every((one) => one.complete)"
    page.wait_for_function(loaded, timeout=90_000)
    page.wait_for_timeout(3000)  # what is drawn
    page.screenshot(path=PICTURES / name, type="jpeg", quality=QUALITY, full_page=whole)


def open_video(page: "Page") -> None:
    page.locator(".card").filter(has_text=NAME).locator("a").first.click()
    page.locator(".word").nth(1).click()


def main() -> None:
    draw_example()
    if sys.argv[1:] == ["example"]:
        return
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        os.environ["WATCHWORD_LIBRARY"] = str(folder / "library.db")
        videos = folder / "videos"
        watchword("research", "shapes", folder / "shapes", "--count", 20, "--write-videos", "--streams", "appearance")
        videos.mkdir()
        for drawn in sorted((folder / "shapes" / "videos").iterdir())[:3]:
            shutil.copy(drawn, videos)
        shutil.copy(example_video(), videos / NAME)
        watchword("library", "add", videos, "--model", "base")
        watchword("explain", videos / NAME, "--model", "base", "--output", folder / "explain.html")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = shown(browser, (folder / "explain.html").as_uri(), {"width": 900, "height": 860}, "light")
        page.locator("button", has_text="man").first.click()
        save(page, "explain.jpg", whole=True)
        with serving() as address:
            save(shown(browser, address, DESKTOP, "light"), "page_home.jpg")
            for picture, viewport, scheme, scale in (
                ("page_video.jpg", DESKTOP, "dark", 1.0),
                ("page_phone.jpg", PHONE, "light", 1.5),
            ):
                page = shown(browser, address, viewport, scheme, scale)
                open_video(page)
                save(page, picture)
            save(shown(browser, f"{address}#/search?q=man", PHONE, "dark", 1.5), "page_search.jpg")
        browser.close()


if __name__ == "__main__":
    main()
