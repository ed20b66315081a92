"""Numbers in a text become citations if there are passages with these numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calculators.language import Source
from calculators.llm.api.openai.citations import citations

SOURCES = (Source(1, "a.md:3", "text", "a.md"), Source(2, 'b "x".md:1'))


def cited(text: str) -> list[Any]:
    return [json.loads(each) for each in citations(text, SOURCES)]


def test_a_citation_names_file_line_and_place() -> None:
    text = "It is so [2], see also [1]."
    assert cited(text) == [
        {"type": "file_citation", "file_id": 'b "x".md:1', "filename": 'b "x".md:1', "index": 9},
        {"type": "file_citation", "file_id": "a.md", "filename": "a.md:3", "index": 23},
    ]
    assert text[9:].startswith("[2]")


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("", []),
        ("none", []),
        ("[3] [0] [x] [-1] [1.5] 1 (1) [] [99999999]", []),
        ("[1][1]", ["a.md", "a.md"]),
        ("[1, 2], [2,1], [1,3]", ["a.md", 'b "x".md:1', 'b "x".md:1', "a.md", "a.md"]),
    ],
)
def test_only_numbers_of_passages_are_citations(text: str, files: list[str]) -> None:
    assert [each["file_id"] for each in cited(text)] == files


def test_an_answer_without_passages_has_none() -> None:
    assert citations("[1]", ()) == []
