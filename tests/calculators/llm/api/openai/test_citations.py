"""Numbers in a text become citations if there are passages with these numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from calculators.language import Api, Begun, Deltas, Source, deltas, request_for
from calculators.llm.answers.answer_writer import DeltaWriter
from calculators.llm.api.openai.responses_object import citations
from calculators.llm.api.whole_answer import answer_writer

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


def written(api: Api, *pieces: str, stream: bool) -> str:
    """Return the answer to a request whose messages quote `SOURCES`."""
    request = request_for(api=api, stream=stream, sources=SOURCES)
    items = deltas(*pieces, request=request)
    begun, *rest = items
    assert isinstance(begun, Begun)
    return DeltaWriter(answer_writer).write(
        Deltas((structs.replace(begun, sources=SOURCES), *rest))
    )


PIECES = ("See [", "2", "], and ", "[9].")
CITATION = {"type": "file_citation", "file_id": 'b "x".md:1', "filename": 'b "x".md:1', "index": 4}


def test_a_whole_response_has_its_citations() -> None:
    (message,) = json.loads(written(Api.RESPONSES, *PIECES, stream=False))["output"]
    (part,) = message["content"]
    assert (part["text"], part["annotations"]) == ("See [2], and [9].", [CITATION])


def test_a_streamed_response_has_the_same_citations() -> None:
    text = written(Api.RESPONSES, *PIECES, stream=True)
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    assert [each["sequence_number"] for each in events] == list(range(len(events)))
    kinds = [each["type"].removeprefix("response.") for each in events]
    at = kinds.index("output_text.annotation.added")
    assert kinds[at - 1 : at + 3] == [
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
    ]
    added = events[at]
    assert (added["annotation"], added["annotation_index"], added["content_index"]) == (
        CITATION,
        0,
        0,
    )
    assert added["item_id"] == events[at + 1]["item_id"]
    assert events[at + 2]["part"]["annotations"] == [CITATION]
    assert events[-1]["response"]["output"][0]["content"][0]["annotations"] == [CITATION]


@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETIONS, Api.MESSAGES])
@pytest.mark.parametrize("stream", [True, False])
def test_other_apis_have_the_numbers_only(api: Api, stream: bool) -> None:
    assert "citation" not in written(api, *PIECES, stream=stream)
