"""Graphs and nodes of the documents: each parses, with its options, and its ports are right."""

from __future__ import annotations

from pathlib import Path

import pytest

import calculators
from graph_runtime import REGISTRY, Registry, parse_graph_text, validate_graph
from servers.serving.python_path import registry_with
from tests.documents.site_pages import SITE_PAGES
from tests.support.checkout import ROOT
from tests.support.markdown import blocks
from website.drawings import connected

#: What registers a calculator.
_DECORATORS = ("@calculator", "@on_request", "@on_text", "@on_deltas", "@answers")
_GRAPHS = [
    pytest.param(page, text, id=f"{page.relative_to(ROOT)}-{number}")
    for page in SITE_PAGES
    for number, (language, text) in enumerate(blocks(page))
    if language == "pbtxt"
]


@pytest.mark.parametrize(("page", "text"), _GRAPHS)
def test_a_graph_of_a_page_is_valid(page: Path, text: str, tmp_path: Path) -> None:
    calculators.register_all(REGISTRY)
    registry = registry_with(_modules(page, tmp_path), Registry(REGISTRY)).registry
    if not text.startswith(("node {", "input_stream")):
        # A part of a node.
        text = f'node {{ calculator: "PassThroughCalculator" {text} }}'
        assert parse_graph_text(text).node
        return
    validate_graph(connected(text), registry=registry)


def _modules(page: Path, folder: Path) -> tuple[Path, ...]:
    """Write the calculators that a page shows, and return their files."""
    files = []
    for number, (language, text) in enumerate(blocks(page)):
        if language == "python" and any(word in text for word in _DECORATORS):
            file = folder / f"{page.stem}_{number}.py"
            file.write_text(text, encoding="utf-8")
            files.append(file)
    return tuple(files)


def test_pages_show_graphs() -> None:
    assert len(_GRAPHS) > 20
