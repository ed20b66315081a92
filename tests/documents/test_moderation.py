"""The commands of `calculators/language/moderation/README.md`."""

from __future__ import annotations

import json
import shutil
from typing import Final

import pytest

from tests.documents.snippets import asked, served
from tests.support.checkout import ROOT
from tests.support.markdown import blocks, commands, text_of

PAGE: Final = "calculators/language/moderation/README.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_page_shows_the_refusal(child_program: None) -> None:
    serve, curl = commands(PAGE, "graphrt serve examples/graphs/moderation")
    with served(serve) as server:
        (choice,) = json.loads(asked(curl, server))["choices"]
    assert choice["finish_reason"] == "content_filter"
    assert f'"{choice["message"]["refusal"]}" as the message' in text_of(PAGE)


def test_the_page_shows_a_node_of_the_example() -> None:
    (node,) = (text for language, text in blocks(PAGE) if language == "pbtxt")
    graph = (ROOT / "examples/graphs/moderation/graph.pbtxt").read_text(encoding="utf-8")
    assert node in graph
