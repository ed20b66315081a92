"""Citations: passages of documents, and the marks of a model that become citations."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.language.events import Content, OutputEvent, Reasoning
from calculators.llm.answers.blocks import BlockOpened
from calculators.llm.api.anthropic.citations import (
    ASKED,
    MOST_CHARACTERS,
    MOST_PASSAGES,
    CitedBlocks,
    Passages,
)
from calculators.llm.api.anthropic.messages_request import parse_messages_request
from calculators.llm.pdf_messages import PagedText
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

TEXT: Final = "The grass is green. The sky is blue.\nDr. Smith (the elder) said so! Really?\n\nEnd"


def parsed(*blocks: dict[str, Any], **members: Any) -> Any:
    asked = {"role": "user", "content": [*blocks, {"type": "text", "text": "Why?"}]}
    body = {"model": "m", "max_tokens": 9, "messages": [asked], **members}
    return parse_messages_request(body, RequestLimits(), ModelDefaults())


def document(source: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, "citations": {"enabled": True}, **members}


def plain(text: str) -> dict[str, Any]:
    return {"type": "text", "media_type": "text/plain", "data": text}


def cited(request: Any) -> list[dict[str, Any]]:
    return [json.loads(each.citation) for each in request.passages]


def test_sentences_are_cited_by_their_characters() -> None:
    request = parsed(document(plain(TEXT), title="Facts"))
    found = cited(request)
    assert [each["cited_text"] for each in found] == [
        "The grass is green.",
        "The sky is blue.",
        "Dr. Smith (the elder) said so!",
        "Really?",
        "End",
    ]
    for each in found:
        assert TEXT[each["start_char_index"] : each["end_char_index"]] == each["cited_text"]
        assert (each["type"], each["document_title"]) == ("char_location", "Facts")
    system, user = request.messages
    assert system == {"role": "system", "content": ASKED}
    shown = "".join(part["text"] for part in user["content"])
    assert "[1] The grass is green. [2] The sky is blue.\n[3] Dr. Smith" in shown


def test_pages_blocks_and_results_are_cited_by_their_own_numbers() -> None:
    pages = PagedText.of(["One thing here. Two.", "", "Three more things."])
    block = {"type": "text", "text": "First. Still the first."}
    content = {"type": "content", "content": [block, {"type": "text", "text": "Second."}]}
    result = {"type": "search_result", "title": "A", "source": "https://a", "content": [block]}
    request = parsed(
        document(plain("Not to be cited."), citations=None),
        document(plain(pages), title="Book"),
        document(content),
        {**result, "citations": {"enabled": False}},
        {**result, "citations": {"enabled": True}},
    )
    of_pages, of_blocks, of_results = cited(request)[:3], cited(request)[3:5], cited(request)[5:]
    assert [each["start_page_number"] for each in of_pages] == [1, 1, 3]
    assert [each["end_page_number"] for each in of_pages] == [2, 2, 4]
    assert {each["document_index"] for each in of_pages} == {1}
    assert [(each["start_block_index"], each["end_block_index"]) for each in of_blocks] == [
        (0, 1),
        (1, 2),
    ]
    assert of_blocks[0] == {
        "type": "content_block_location",
        "cited_text": "First. Still the first.",
        "document_index": 2,
        "document_title": None,
        "file_id": None,
        "start_block_index": 0,
        "end_block_index": 1,
    }
    assert of_results == [
        {
            "type": "search_result_location",
            "cited_text": "First. Still the first.",
            "source": "https://a",
            "title": "A",
            "search_result_index": 1,
            "start_block_index": 0,
            "end_block_index": 1,
        }
    ]


def test_documents_that_do_not_ask_are_shown_as_ever() -> None:
    request = parsed(document(plain(TEXT), citations={"enabled": False}), system="Be brief.")
    assert request.passages == ()
    system, user = request.messages
    assert system["content"] == "Be brief."
    assert TEXT in user["content"][0]["text"]


@pytest.mark.parametrize(
    ("block", "members", "param"),
    [
        (document(plain("a"), citations=5), {}, "messages[0].content[0].citations"),
        (
            document(plain("a"), citations={"enabled": "yes"}),
            {},
            "messages[0].content[0].citations.enabled",
        ),
        (
            document(plain("a")),
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            "output_config.format.schema",
        ),
        (document(plain("a\n" * (MOST_PASSAGES + 1))), {}, "messages[0].content[0].source"),
        (document(plain("a" * (MOST_CHARACTERS + 1))), {}, "messages[0].content[0].source"),
    ],
)
def test_what_cannot_be_cited_is_refused_by_its_place(
    block: dict[str, Any], members: dict[str, Any], param: str
) -> None:
    with pytest.raises(RequestError) as raised:
        parsed(block, **members)
    assert raised.value.param == param


# Marks --------------------------------------------------------------------------------------------


def read(text: str, size: int = 1000) -> list[tuple[int, str, int]]:
    """Return number, text and count of citations of each block; the text comes in pieces."""
    passages = Passages()
    passages.numbered(TEXT, "", "x")
    blocks = CitedBlocks(passages.found)
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    steps = [step for piece in pieces for step in blocks.add(Content(piece))]
    steps += blocks.finish()
    found = [step.block for step in steps if isinstance(step, BlockOpened)]
    return [(each.index, each.text, len(each.citations)) for each in found]


MARKED: Final = [
    ("Green [1].", [("Green.", 1)]),
    ("It is so. [2] And more.", [("It is so.", 1), (" And more.", 0)]),
    ("One. Two. Three [1, 3]. Four.", [("One. Two.", 0), (" Three.", 2), (" Four.", 0)]),
    ("All [2-4][1] of it", [("All of it", 4)]),
    ("None [9]. [0] Nor [99].", [("None [9]. [0] Nor [99].", 0)]),
    ("Some [1, 9].", [("Some.", 1)]),
    ("Use `a[1]` here.", [("Use `a[1]` here.", 0)]),
    ("```py\na[1]\n```\nYes [1].", [("```py\na[1]\n```\n", 0), ("Yes.", 1)]),
    ("- a [1]\n- b\n", [("- a\n", 1), ("- b\n", 0)]),
    ("\n[1]\n", []),
    ("a [ 1 ] [b] [", [("a [ 1 ] [b] [", 0)]),
    ("It is「so」。[1]Yes.", [("It is「so」。", 1), ("Yes.", 0)]),
]


@pytest.mark.parametrize(("text", "expected"), MARKED)
def test_a_sentence_with_marks_is_a_block_with_citations(
    text: str, expected: list[tuple[str, int]]
) -> None:
    blocks = read(text)
    if expected:
        assert [(said, count) for _, said, count in blocks] == expected
    else:
        assert "".join(said for _, said, _ in blocks) == text
    assert [number for number, _, _ in blocks] == list(range(len(blocks)))


@pytest.mark.parametrize(("text", "expected"), MARKED)
def test_citations_do_not_depend_on_the_pieces_of_the_text(
    text: str, expected: list[tuple[str, int]]
) -> None:
    for size in range(1, len(text)):
        assert read(text, size) == read(text)


def test_a_sentence_without_an_end_is_not_kept_for_ever() -> None:
    blocks = CitedBlocks(Passages().found)
    steps = [step for _ in range(300) for step in blocks.add(Content("a word and "))]
    assert steps


def test_what_waits_comes_before_other_output() -> None:
    passages = Passages()
    passages.numbered(TEXT, "", "x")
    blocks = CitedBlocks(passages.found)
    events: list[OutputEvent] = [Content("Green [1]"), Reasoning("hm"), Content("And so")]
    steps = [step for event in events for step in blocks.add(event)] + [*blocks.finish()]
    opened = [step.block for step in steps if isinstance(step, BlockOpened)]
    assert [(each.text, len(each.citations)) for each in opened] == [
        ("Green", 1),
        ("hm", 0),
        ("And so", 0),
    ]
