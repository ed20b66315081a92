"""The commands of `calculators/language/redaction/README.md`."""

from __future__ import annotations

import json
import shutil
from typing import Final

import pytest

from tests.documents.snippets import asked, served
from tests.support.checkout import ROOT
from tests.support.markdown import blocks, commands, text_of

PAGE: Final = "calculators/language/redaction/README.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_page_shows_the_masked_answer(child_program: None) -> None:
    serve, curl = commands(PAGE, "graphrt serve examples/graphs/redact")
    with served(serve) as server:
        answer = json.loads(asked(curl, server))
    content = answer["choices"][0]["message"]["content"]
    assert content == "The capital of France is ***."
    assert content.replace("*", "\\*") in text_of(PAGE)


def test_the_page_shows_options_of_the_example() -> None:
    node, _ = (text for language, text in blocks(PAGE) if language == "pbtxt")
    graph = (ROOT / "examples/graphs/redact/graph.pbtxt").read_text(encoding="utf-8")
    lines = {line.strip() for line in graph.splitlines()}
    assert {line.strip() for line in node.splitlines()} <= lines
