"""What mkdocs does besides: it takes links out that lead to no page of the site.

mkdocs.yml names this file as a hook.
"""

import re
from pathlib import PurePosixPath
from typing import Any

LINK = re.compile(r"\[([^][]+)\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """A link out of `docs/` to a file of the repository, which the site hasn't, becomes that file's path."""
    depth = len(PurePosixPath(page.file.src_uri).parents) - 1

    def replaced(found: re.Match) -> str:
        text, target = found[1], found[2]
        if not target.startswith("../" * (depth + 1)):
            return found[0]
        path = target.removeprefix("../" * (depth + 1))
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    return LINK.sub(replaced, markdown)
