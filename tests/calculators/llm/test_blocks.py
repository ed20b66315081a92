"""Blocks that the events of an answer form."""

from __future__ import annotations

import pytest

from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall
from calculators.llm.answers.blocks import (
    BlockClosed,
    BlockDelta,
    BlockOpened,
    Blocks,
    Step,
    blocks_of,
)
from calculators.llm.answers.response import AnswerChoice


def told(events: list[OutputEvent], *, is_cut: bool = False) -> list[str]:
    """Return the steps in short: ``+`` opens, ``-`` closes, ``~`` closes a block cut off."""
    blocks = Blocks()
    steps: list[Step] = [step for event in events for step in blocks.add(event)]
    steps += blocks.finish(is_cut=is_cut)
    shown = []
    for step in steps:
        place = f"{step.block.index}{step.block.kind.name[:2]}"
        match step:
            case BlockOpened():
                shown.append(f"+{place}")
            case BlockDelta(_, text):
                shown.append(f"{place} {text}")
            case BlockClosed(_, cut):
                shown.append(f"~{place}" if cut else f"-{place}")
    return shown


def test_one_block_ends_before_the_next_begins() -> None:
    events: list[OutputEvent] = [
        Reasoning("so"),
        Reasoning("..."),
        Content("Hi"),
        ToolCall("f", "1"),
        Arguments("{"),
        Arguments("}"),
        ToolCall("g", "2"),
        Content("ok"),
    ]
    assert told(events) == [
        "+0RE", "0RE so", "0RE ...", "-0RE",
        "+1CO", "1CO Hi", "-1CO",
        "+2CA", "2CA {", "2CA }", "-2CA",
        "+3CA", "-3CA",
        "+4CO", "4CO ok", "-4CO",
    ]  # fmt: skip


def test_only_the_last_block_is_cut_off() -> None:
    assert told([Content("a"), ToolCall("f"), Arguments("{")], is_cut=True)[-1] == "~1CA"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([Reasoning("a"), Content("\n"), Content("\n"), Content("b")], "1CO \n\nb"),
        ([Content(" "), Reasoning("\n"), Reasoning("b")], "0RE \nb"),
    ],
)
def test_white_space_belongs_to_the_block_that_follows(
    events: list[OutputEvent], expected: str
) -> None:
    assert expected in told(events)


@pytest.mark.parametrize(
    "events",
    [
        [Content("\n")],
        [Reasoning(" \n"), Content("\t")],
    ],
)
def test_white_space_alone_is_no_block(events: list[OutputEvent]) -> None:
    assert told(events) == []


def test_white_space_between_calls_is_no_block() -> None:
    events: list[OutputEvent] = [ToolCall("f"), Content("\n"), ToolCall("g"), Content("\n")]
    assert told(events) == ["+0CA", "-0CA", "+1CA", "-1CA"]


def test_white_space_inside_a_block_is_kept() -> None:
    assert told([Content("a"), Content("\n\n"), Content("b")])[1:4] == [
        "0CO a",
        "0CO \n\n",
        "0CO b",
    ]


def test_a_hundred_thousand_blanks_take_linear_time() -> None:
    blocks = Blocks()
    for _ in range(100_000):
        assert not blocks.add(Content(" "))
    [_, grown] = blocks.add(Content("x"))
    assert isinstance(grown, BlockDelta)
    assert len(grown.text) == 100_001


def test_a_whole_answer_has_its_blocks_in_the_order_of_its_events() -> None:
    calls: list[OutputEvent] = [
        ToolCall("f", "1"),
        Arguments("{"),
        Arguments("}"),
        ToolCall("g", "2"),
    ]
    choice = AnswerChoice([Reasoning("why"), *calls, Content("te"), Content("xt")])
    assert [(b.kind.name, b.name, b.call_id, b.text) for b in blocks_of(choice)] == [
        ("REASONING", "", "", "why"),
        ("CALL", "f", "1", "{}"),
        ("CALL", "g", "2", ""),
        ("CONTENT", "", "", "text"),
    ]
