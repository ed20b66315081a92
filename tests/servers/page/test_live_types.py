"""The types in TypeScript are those that the server sends and draws."""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.page.typescript import GRAPH_TYPES, LIVE_TYPES, graph_types, live_types


@pytest.mark.parametrize(
    ("file", "text"),
    [(LIVE_TYPES, live_types()), (GRAPH_TYPES, graph_types())],
    ids=["live", "graph"],
)
def test_the_types_of_the_page_are_up_to_date(file: Path, text: str) -> None:
    hint = "run python -m servers.page.typescript"
    assert file.read_text(encoding="utf-8") == text, hint
