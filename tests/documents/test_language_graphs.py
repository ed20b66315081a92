"""docs/language_graphs.md: every example of a language model among other nodes, drawn."""

from __future__ import annotations

from pathlib import Path

from servers.cli.language_graphs import language_graphs, page
from tests.servers.cli.process import graphrt
from tests.support.checkout import ROOT

PAGE = ROOT / "docs" / "language_graphs.md"


def test_the_page_is_what_describe_draws() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        f"`python -m servers.cli.language_graphs > {PAGE.relative_to(ROOT)}` writes it again"
    )


def test_describe_draws_the_same_at_the_command_line() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for example in language_graphs():
        file = Path("examples/graphs", example.file)
        modules = [word for each in (ROOT / file.parent).glob("*.py") for word in _flag(each)]
        done = graphrt("describe", file, "--format", "mermaid", *modules, cwd=ROOT)
        assert (done.returncode, done.stdout.strip() in text) == (0, True), done.stderr


def _flag(module: Path) -> tuple[str, str]:
    return "--calculators", str(module)
