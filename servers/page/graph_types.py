"""The types of drawings in TypeScript, made from `servers.drawing.drawing`.

``python -m servers.page.graph_types`` writes `page/src/graph_types.ts`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from servers.drawing.drawing import GraphDrawing
from servers.page.typescript import interfaces

FILE = Path(__file__).parents[2] / "page" / "src" / "graph_types.ts"
_HEAD = """\
// Made by `python -m servers.page.graph_types` from servers/drawing/drawing.py. Do not edit.
"""


def typescript() -> str:
    """Return the text of `page/src/graph_types.ts`."""
    return "\n".join([_HEAD, *interfaces([GraphDrawing])])


def main() -> None:
    """Write the file."""
    FILE.write_text(typescript(), encoding="utf-8")
    sys.stdout.write(f"{FILE.name} is written\n")


if __name__ == "__main__":
    main()
