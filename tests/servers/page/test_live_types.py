"""The types in TypeScript are those that the server sends."""

from __future__ import annotations

from servers.page.typescript import FILE, typescript


def test_the_types_of_the_page_are_up_to_date() -> None:
    hint = "run python -m servers.page.typescript"
    assert FILE.read_text(encoding="utf-8") == typescript(), hint
