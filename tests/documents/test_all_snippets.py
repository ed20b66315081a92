"""Coverage of snippets: a test runs every program and command that a page shows."""

from __future__ import annotations

import re
from pathlib import Path

from tests.documents.site_pages import FOLLOWED, SITE_PAGES
from tests.support.checkout import ROOT
from tests.support.markdown import blocks, text_of

#: Commands that are left out, with the reason.
NOT_RUN = {
    "graphrt launch": "it starts an agent: `make agents` does, and test_launch.py",
    "make setup": "it sets up the environment that tests run in",
    'pip install -e ".[test]"': "it installs into the environment that tests run in",
    "python -m tests.reliability.": "it takes minutes; CI has commands of its own for it",
    "python -m bench.cheapest_requests": "it takes minutes",
}
#: Languages of fences that a test runs; `test_graphs_of_pages` checks every ``pbtxt``.
RUN = ("console", "python")
KNOWN = ("", "lua", "pbtxt", "mermaid", "json", "toml", "yaml", "markdown", "text", *RUN)
#: Tests of snippets, by the texts that they search for in blocks.
TESTS = (
    *sorted((ROOT / "tests" / "documents").glob("test_*.py")),
    *sorted((ROOT / "tests" / "examples").glob("test_*.py")),
    ROOT / "tests" / "servers" / "operations" / "metrics" / "test_metrics_of_nodes.py",
)
_SOURCES = [text_of(test) for test in TESTS if test.name != Path(__file__).name]


def sought(page: Path) -> list[str]:
    """Return the texts by which tests search for blocks of this page."""
    name = str(page.relative_to(ROOT))
    return [
        literal
        for source in _SOURCES
        if f'"{name}"' in source or page.name in source
        for _, literal in re.findall(r"""(['"])((?:(?!\1).)+)\1""", source)
        if len(literal) > 4
    ]


# One test for all pages: as a test for each they took longer to collect than to run.
def test_every_block_that_can_run_is_run_by_a_test() -> None:
    left: list[str] = []
    for page in SITE_PAGES:
        name = str(page.relative_to(ROOT))
        left += [
            f"{name}: a block in {language}"
            for language, _ in blocks(page)
            if language not in KNOWN
        ]
        if name in FOLLOWED:
            continue
        seeks = sought(page)
        for language, text in blocks(page):
            if language not in RUN or any(literal in text for literal in seeks):
                continue
            reason = next((NOT_RUN[each] for each in NOT_RUN if text.startswith(f"$ {each}")), None)
            if reason is None:
                left.append(f"{name}: {text}")
            else:
                print(f"not run, because {reason}:\n{text}")
    assert left == []
