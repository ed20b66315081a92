"""The pages of the site that people write, and which of them run from top to bottom."""

from __future__ import annotations

from typing import Final

from tests.support.checkout import ROOT
from tests.support.markdown import PAGES

#: Those about the whole project, and those beside the code that they describe.
SITE_PAGES: Final = (
    *PAGES,
    *sorted((ROOT / "calculators").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
)

#: Pages that `test_followed_pages` runs from top to bottom.
FOLLOWED: Final = (
    "docs/tutorials/first_graph.md",
    "docs/tutorials/chat_endpoint.md",
    "docs/tutorials/guard.md",
    "docs/tutorials/retrieval.md",
    "docs/tutorials/watch.md",
    "docs/tutorials/operate.md",
    "docs/tutorials/from_ovms.md",
    "docs/how_a_packet_travels.md",
    "docs/how_a_token_travels.md",
)
