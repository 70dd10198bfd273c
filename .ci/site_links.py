"""Links of the documents to files outside docs/ lead to the repository on the built site."""

import posixpath
import re
from typing import Any

LINK = re.compile(r"\]\(((?:\.\./)+[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Rewrites `../src/x.py`, relative to docs/, to its address in the repository."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def rewrite(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        return match[0] if target.startswith("docs/") else f"]({config['repo_url']}/blob/main/{target})"

    return LINK.sub(rewrite, markdown)
