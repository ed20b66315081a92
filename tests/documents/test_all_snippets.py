"""Coverage of snippets: a test runs every program and command that a page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.markdown import PAGES, blocks, text_of

#: Commands that take minutes, or set up the environment that tests run in.
LONG = ("make setup", "python -m tests.reliability.")
#: Tests of snippets, by the texts that they search for in blocks.
TESTS = (
    *sorted((ROOT / "tests" / "documents").glob("test_*.py")),
    ROOT / "tests" / "servers" / "operations" / "metrics" / "test_metrics_of_nodes.py",
)


def sought(page: Path) -> list[str]:
    """Return the texts by which tests search for blocks of this page."""
    name = str(page.relative_to(ROOT))
    sources = [text_of(test) for test in TESTS]
    return [
        literal
        for source in sources
        if f'"{name}"' in source or page.name in source
        for _, literal in re.findall(r"""(['"])((?:(?!\1).)+)\1""", source)
        if len(literal) > 4
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_that_can_run_is_run_by_a_test(page: Path) -> None:
    runnable = [text for language, text in blocks(page) if language in ("console", "python")]
    seeks = sought(page)
    left = [
        text
        for text in runnable
        if not any(literal in text for literal in seeks)
        and not any(text.startswith(f"$ {command}") for command in LONG)
    ]
    assert left == []
