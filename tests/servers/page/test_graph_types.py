"""page/src/graph_types.ts is made from the classes of a drawing."""

from __future__ import annotations

from servers.page.graph_types import FILE, typescript


def test_the_types_of_drawings_are_made_from_their_classes() -> None:
    assert FILE.read_text(encoding="utf-8") == typescript(), (
        "`python -m servers.page.graph_types` writes it again"
    )
