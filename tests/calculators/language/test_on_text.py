"""Nodes of an author's own on the text of answers: `on_text`, with functions and with filters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from calculators.language import (
    AuthorError,
    CallDone,
    Content,
    Deltas,
    Failed,
    Finished,
    FinishReason,
    Gained,
    Reasoning,
    Refusal,
    Refused,
    RequestError,
    ToolCall,
    Usage,
    call,
    delta_packets,
    deltas,
    every_cut,
    fake_model,
    on_text,
    request_for,
    text_of,
)
from calculators.language.testing import events_of, items_of
from graph_runtime import Code, options
from graph_runtime.testing import CalculatorRunner
from tests.calculators.language.graphs import CHAT, RESPONSES, run_graph
from tests.calculators.language.nodes import run_node


def changed(node: Any, *packets: Deltas, options: Any = ()) -> list[Deltas]:
    """Return the packets that a node makes of packets, in the order that answers have."""
    return run_node(node, packets, options=options)


@on_text
async def mask_foo(text: AsyncIterator[str]) -> AsyncIterator[str]:
    held = ""
    async for piece in text:
        held = (held + piece).replace("foo", "bar")
        keep = next((n for n in (2, 1) if held.endswith("foo"[:n])), 0)
        yield held[: len(held) - keep]
        held = held[len(held) - keep :]
    yield held


@on_text
class MaskFoo:
    """The same as a filter."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        held = (self._held + text).replace("foo", "bar")
        keep = next((n for n in (2, 1) if held.endswith("foo"[:n])), 0)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def finish(self) -> str:
        return self._held


MASKS = [mask_foo, MaskFoo]


def test_the_example_of_the_guide() -> None:
    runner = CalculatorRunner(mask_foo)
    runner.push("DELTAS", deltas("a fo", "o b", finish="stop"))
    runner.run()
    assert text_of(runner.outputs["DELTAS"]) == "a bar b"


@pytest.mark.parametrize("node", MASKS)
def test_the_text_does_not_depend_on_the_cuts(node: Any) -> None:
    for pieces in every_cut("a foofo f"):
        assert text_of(changed(node, *delta_packets(*pieces))) == "a barfo f"


@pytest.mark.parametrize("node", MASKS)
def test_each_choice_is_a_text_of_its_own(node: Any) -> None:
    first = deltas("fo", finish=None, choices=2)
    rest = Deltas(
        (
            Gained(1, (Content("o"),)),
            Gained(0, (Content("o"),)),
            *(Finished(choice, FinishReason.STOP) for choice in (1, 0)),
            deltas()[-1],
        )
    )
    made = changed(node, first, rest)
    assert text_of(made) == "bar"
    assert text_of(made, choice=1) == "o"


@pytest.mark.parametrize("node", MASKS)
def test_what_is_left_comes_before_the_end_in_its_packet(node: Any) -> None:
    made = changed(node, *delta_packets("a", "fo"))
    assert made[-1][0] == Gained(0, (Content("fo"),))
    assert isinstance(made[-1][1], Finished)


@pytest.mark.parametrize("node", MASKS)
def test_reasoning_and_calls_pass_unless_they_are_asked_for(node: Any) -> None:
    parts = (Reasoning("foo"), "foo", call("f", {"a": "foo"}))
    made = changed(node, *delta_packets(*parts, finish="tool_calls"))
    assert text_of(made, kind="reasoning") == "foo"
    assert text_of(made) == "bar"
    assert text_of(made, kind="arguments") == '{"a": "foo"}'
    assert made[-1][-2] == Finished(0, FinishReason.TOOL_CALLS)


def test_kinds_are_texts_of_their_own() -> None:
    seen: list[str] = []

    @on_text(kinds=("reasoning", "content", "arguments"))
    async def shout(text: AsyncIterator[str]) -> AsyncIterator[str]:
        whole = ""
        async for piece in text:
            whole += piece
            yield piece.upper()
        seen.append(whole)
        yield "!"

    parts = (Reasoning("hm"), Reasoning("m"), "a", call("f", '{"b":'), "c")
    made = changed(shout, *delta_packets(*parts))
    assert seen == ["hmm", '{"b":', "ac"]
    assert events_of(made) == [
        Reasoning("HM"),
        Reasoning("M"),
        Reasoning("!"),
        Content("A"),
        ToolCall("f", "call00001"),
        *changed_arguments('{"B":', "!"),
        Content("C"),
        Content("!"),
    ]


def changed_arguments(*texts: str) -> list[Any]:
    whole = call("f", "".join(texts))
    first = [call("f", text)[1] for text in texts]
    return [*first, whole[-1]]


def test_the_end_of_a_call_has_the_changed_arguments() -> None:
    @on_text(kinds=("arguments",))
    async def rename(text: AsyncIterator[str]) -> AsyncIterator[str]:
        async for piece in text:
            yield piece.replace("a", "b")

    made = changed(rename, *delta_packets(call("f", {"a": 1}), finish="tool_calls"))
    assert events_of(made)[-1] == CallDone('{"b": 1}', True)


def test_log_probabilities_and_ids_do_not_spell_what_was_changed() -> None:
    group = Gained(0, (Content("foo"),), [], (1, 2), Usage(1, 1))
    kept = Gained(0, (Content("x"),), [], (3,))
    begun = deltas(finish=None)
    made = changed(MaskFoo, begun, Deltas((group, kept)), deltas(begins=False))
    [changed_group, same] = [item for item in items_of(made) if isinstance(item, Gained)]
    assert changed_group == Gained(0, (Content("bar"),), None, (), Usage(1, 1))
    assert same == kept


@pytest.mark.parametrize("kind", ["function", "filter"])
def test_an_exception_ends_the_answer_with_the_name_of_the_node(kind: str) -> None:
    stops: list[int] = []

    async def fragile(text: AsyncIterator[str]) -> AsyncIterator[str]:
        async for piece in text:
            yield piece + "."
            if piece == "b":
                raise ValueError("secret")

    class Fragile:
        def feed(self, text: str) -> str:
            if text == "b":
                raise ValueError("secret")
            return text + "."

        def finish(self) -> str:
            return ""

    node: Any = on_text(fragile) if kind == "function" else on_text(Fragile)
    packets = delta_packets("a", "b", "c", stop=lambda: stops.append(1))
    made = changed(node, *packets)
    assert text_of(made) == ("a.b." if kind == "function" else "a.")
    failed = items_of(made)[-1]
    assert isinstance(failed, Failed)
    assert failed.error.code is Code.INTERNAL
    assert "failed" in failed.error.message
    assert "secret" not in failed.error.message
    assert failed.request is not None
    assert stops == [1]


def test_an_error_for_the_client_goes_on_as_it_is() -> None:
    @on_text
    async def strict(text: AsyncIterator[str]) -> AsyncIterator[str]:
        async for piece in text:
            yield piece
            raise RequestError("too rude", code=Code.FAILED_PRECONDITION)

    failed = items_of(changed(strict, *delta_packets("a", "b")))[-1]
    assert isinstance(failed, Failed)
    assert (failed.error.message, failed.error.code) == ("too rude", Code.FAILED_PRECONDITION)


def test_returning_early_ends_the_answer_and_the_model() -> None:
    stops: list[int] = []

    @on_text
    async def first_word(text: AsyncIterator[str]) -> AsyncIterator[str]:
        async for piece in text:
            word, space, _ = piece.partition(" ")
            yield word
            if space:
                return

    packets = delta_packets("Hel", "lo you", " there", stop=lambda: stops.append(1))
    made = changed(first_word, *packets)
    assert text_of(made) == "Hello"
    assert [item for item in items_of(made) if isinstance(item, Finished)] == [
        Finished(0, FinishReason.STOP)
    ]
    # The end has the model's usage.
    assert items_of(made)[-1] == items_of(packets)[-1]
    assert stops == [1]


def test_a_refusal_ends_all_open_choices() -> None:
    stops: list[int] = []

    @on_text
    async def guard(text: AsyncIterator[str]) -> AsyncIterator[str]:
        async for piece in text:
            if "bomb" in piece:
                raise Refusal("Not that.", "violence")
            yield piece

    begun = deltas("a", finish=None, choices=2, stop=lambda: stops.append(1))
    bad = Deltas((Gained(0, (Content("bomb"),)), Gained(1, (Content("b"),))))
    end = Deltas((Finished(0, FinishReason.STOP), Finished(1, FinishReason.STOP), deltas()[-1]))
    made = changed(guard, begun, bad, end)
    refused = (Refused("Not that.", "violence"),)
    assert items_of(made)[2:] == [
        Gained(0, refused),
        Finished(0, FinishReason.CONTENT_FILTER),
        Gained(1, refused),
        Finished(1, FinishReason.CONTENT_FILTER),
        deltas()[-1],
    ]
    assert stops == [1]


@pytest.mark.parametrize("node", MASKS)
def test_what_is_held_comes_before_a_refusal_of_another_node(node: Any) -> None:
    refused = Gained(0, (Refused("No."),))
    end = Deltas((refused, Finished(0, FinishReason.CONTENT_FILTER), deltas()[-1]))
    made = changed(node, *delta_packets("a", " fo", finish=None), end)
    assert events_of(made) == [Content("a"), Content(" "), Content("fo"), Refused("No.")]


@options("tests.MaskOptions")
class MaskOptions:
    """Options of a node of a test."""

    word: str = "foo"
    mask: str = "*"


def test_functions_and_filters_take_options() -> None:
    @on_text
    async def mask(text: AsyncIterator[str], *, how: MaskOptions) -> AsyncIterator[str]:
        async for piece in text:
            yield piece.replace(how.word, how.mask)

    @on_text
    class Mask:
        def __init__(self, options: MaskOptions) -> None:
            self._options = options

        def feed(self, text: str) -> str:
            return text.replace(self._options.word, self._options.mask)

        def finish(self) -> str:
            return ""

    for node in (mask, Mask):
        made = changed(node, deltas("a foo"), options=MaskOptions(mask="-"))
        assert text_of(made) == "a -"


def test_what_cannot_be_a_node_is_refused_at_import() -> None:
    async def no_generator(text: AsyncIterator[str]) -> str:
        return ""

    async def wrong_options(text: AsyncIterator[str], word: str) -> AsyncIterator[str]:
        yield word

    class NoFilter:
        pass

    for target, hint in ((no_generator, "yield"), (wrong_options, "word"), (NoFilter, "feed")):
        with pytest.raises(AuthorError, match=hint):
            on_text(target)  # type: ignore[arg-type]
    with pytest.raises(AuthorError, match="content"):
        on_text(kinds=("tools",))  # type: ignore[arg-type]


class Opened:
    """An ``async with`` block that notes how it was left."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes

    async def __aenter__(self) -> None:
        self._notes.append("in")

    async def __aexit__(self, *error: object) -> None:
        await asyncio.sleep(0)
        self._notes.append("out")


def test_blocks_of_a_function_are_left_when_the_run_ends_early() -> None:
    notes: list[str] = []

    @on_text
    async def careful(text: AsyncIterator[str]) -> AsyncIterator[str]:
        async with Opened(notes):
            async for piece in text:
                yield piece

    runner = CalculatorRunner(careful)
    runner.push("DELTAS", deltas("a", finish=None))
    runner.run()
    assert notes == ["in", "out"]


def test_time_limits_and_waits_work_inside_a_function() -> None:
    @on_text
    async def slow(text: AsyncIterator[str]) -> AsyncIterator[str]:
        async with asyncio.timeout(60):
            async for piece in text:
                await asyncio.sleep(0)
                yield piece
                await asyncio.sleep(0)
                yield "."

    assert text_of(changed(slow, *delta_packets("a", "b"))) == "a.b."
    model = fake_model("a", "b", "c")
    assert asyncio.run(run_graph(CHAT, model, [slow])).text == "a.b.c."
    assert model.requests[0].last_text() == request_for().last_text()


@pytest.mark.parametrize("is_filter", [False, True])
def test_what_is_no_text_fails_the_node_in_its_place(is_filter: bool) -> None:
    node: Any
    if is_filter:

        @on_text
        class GivesNone:
            def feed(self, text: str) -> Any:
                return None if text == "b" else text

            def finish(self) -> str:
                return ""

        node = GivesNone
    else:

        @on_text
        async def gives_none(text: AsyncIterator[str]) -> AsyncIterator[Any]:
            async for piece in text:
                yield None if piece == "b" else piece

        node = gives_none
    items = items_of(changed(node, *delta_packets("a", "b", "c")))
    assert text_of(Deltas(items)) == "a"
    assert isinstance(items[-1], Failed)
    name = node.__name__
    assert (items[-1].error.message, items[-1].error.code) == (
        f'node "{name}" failed',
        Code.INTERNAL,
    )
    if not is_filter:  # the graphs of tests name a stream like the node
        told = asyncio.run(run_graph(RESPONSES, fake_model("a", "b"), [node], stream=True))
        assert told.events[-1]["type"] == "response.failed"


def test_a_choice_without_text_has_an_empty_text() -> None:
    @on_text
    async def signs(text: AsyncIterator[str]) -> AsyncIterator[str]:
        async for piece in text:
            yield piece
        yield "-- me"

    @on_text
    class Signs:
        def feed(self, text: str) -> str:
            return text

        def finish(self) -> str:
            return "-- me"

    for node in (signs, Signs):
        assert text_of(changed(node, *delta_packets())) == "-- me"
        assert text_of(changed(node, *delta_packets("a"))) == "a-- me"
        refused = (Gained(0, (Refused("No."),)), Finished(0, FinishReason.CONTENT_FILTER))
        made = changed(node, deltas(finish=None), Deltas((*refused, deltas()[-1])))
        assert text_of(made) == ""
