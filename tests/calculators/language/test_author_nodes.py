"""Nodes of an author's own: `on_deltas`, `on_request` and `answers`."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from msgspec import structs

from calculators.language import (
    Api,
    Arguments,
    AuthorError,
    Begun,
    Content,
    Delta,
    Deltas,
    Ended,
    Event,
    Failed,
    Finished,
    FinishReason,
    Gained,
    GenerationRequest,
    Reasoning,
    Refusal,
    RequestError,
    Submitted,
    ToolCall,
    Usage,
    answers,
    call,
    delta_packets,
    fake_model,
    on_deltas,
    on_request,
    request_for,
    text_of,
)
from calculators.language.mistakes import AuthorMistake
from calculators.language.testing import items_of
from graph_runtime import Calculator, CalculatorContext, Code, In, Out, RunError, options
from graph_runtime.testing import CalculatorRunner
from tests.calculators.language.graphs import CHAT, COMPLETIONS, MESSAGES, RESPONSES, run_graph
from tests.calculators.language.nodes import run_node


def run(node: Any, *packets: Any, tag: str = "DELTAS", options: Any = ()) -> list[Deltas]:
    """Return the packets that a node makes of packets, in the order that answers have."""
    return run_node(node, packets, tag=tag, options=options)


@on_deltas
async def see_all(deltas: AsyncIterator[Delta]) -> AsyncIterator[Delta]:
    async for item in deltas:
        yield item


def test_a_function_on_deltas_gets_all_items_and_keeps_their_packets() -> None:
    packets = delta_packets("a", call("f", {}), "b")
    assert run(see_all, *packets) == packets


def test_the_news_that_a_model_was_asked_passes() -> None:
    submitted = Deltas((Submitted(lambda: None, "llm"),))
    assert run(see_all, submitted, *delta_packets("a")) == [submitted, *delta_packets("a")]


def test_a_failure_before_the_answer_passes() -> None:
    failed = Deltas((Failed(RequestError("no room"), request_for()),))
    assert run(see_all, failed) == [failed]


def test_a_function_may_take_and_add_items() -> None:
    @on_deltas
    async def only_loud(deltas: AsyncIterator[Delta]) -> AsyncIterator[Delta]:
        async for item in deltas:
            if isinstance(item, Gained):
                item = structs.replace(
                    item, events=tuple(each for each in item.events if loud(each))
                )
            if isinstance(item, Ended):
                item = Ended(Usage(7, 7))
            yield item

    def loud(event: Event) -> bool:
        return isinstance(event, Content) and event.text.isupper()

    made = run(only_loud, *delta_packets("a", "B", "c"))
    assert text_of(made) == "B"
    assert made[-1][-1] == Ended(Usage(7, 7))


def test_returning_early_ends_open_choices_and_the_model() -> None:
    stops: list[int] = []

    @on_deltas
    async def until_call(deltas: AsyncIterator[Delta]) -> AsyncIterator[Delta]:
        async for item in deltas:
            if isinstance(item, Gained) and "b" in text_of(Deltas((item,))):
                return
            yield item

    packets = delta_packets("a", "b", "c", stop=lambda: stops.append(1))
    made = run(until_call, *packets)
    assert text_of(made) == "a"
    assert items_of(made)[-2:] == [Finished(0, FinishReason.STOP), packets[-1][-1]]
    assert stops == [1]


def test_an_exception_on_deltas_ends_the_answer_with_the_name_of_the_node() -> None:
    stops: list[int] = []

    @on_deltas
    async def breaks(deltas: AsyncIterator[Delta]) -> AsyncIterator[Delta]:
        async for item in deltas:
            yield item
            if isinstance(item, Gained):
                raise KeyError("secret")

    made = run(breaks, *delta_packets("a", "b", stop=lambda: stops.append(1)))
    failed = items_of(made)[-1]
    assert isinstance(failed, Failed)
    assert text_of(made) == "a"
    assert failed.error.code is Code.INTERNAL
    assert "secret" not in failed.error.message
    assert stops == [1]


@pytest.mark.parametrize("kind", ["text", "no begin", "no end"])
def test_what_is_no_answer_is_an_error_of_the_authors_node(kind: str) -> None:
    @on_deltas
    async def careless(deltas: AsyncIterator[Delta]) -> AsyncIterator[Any]:
        async for item in deltas:
            if kind == "text" and isinstance(item, Gained):
                yield "text"
            elif not isinstance(item, {"no begin": Begun, "no end": Ended}.get(kind, int)):
                yield item

    told = asyncio.run(run_graph(CHAT, fake_model("a", "b"), [careless]))
    assert isinstance(told.error, RequestError)
    assert (told.error.message, told.error.code) == ('node "careless" failed', Code.INTERNAL)


def test_a_refusal_on_deltas_ends_the_answer() -> None:
    @on_deltas
    async def refuses(deltas: AsyncIterator[Delta]) -> AsyncIterator[Delta]:
        async for item in deltas:
            if isinstance(item, Gained):
                raise Refusal("No.")
            yield item

    made = run(refuses, *delta_packets("a", "b"))
    assert Finished(0, FinishReason.CONTENT_FILTER) in items_of(made)
    assert isinstance(items_of(made)[-1], Ended)


def test_nodes_between_model_and_writer_work_for_every_api() -> None:
    for uri in (CHAT, COMPLETIONS, RESPONSES, MESSAGES):
        plain = asyncio.run(run_graph(uri, fake_model("a", "b")))
        seen = asyncio.run(run_graph(uri, fake_model("a", "b"), [see_all]))
        assert len(plain.packets) == len(seen.packets) == 1
        streamed = asyncio.run(run_graph(uri, fake_model("a", "b"), [see_all], stream=True))
        assert len(streamed.packets) == 2


def test_a_function_on_requests_changes_what_the_model_gets() -> None:
    @on_request
    async def be_polite(request: GenerationRequest) -> GenerationRequest:
        return request.with_system("Be polite.").with_sampling(max_tokens=5).answered_by("kind")

    for uri in (CHAT, RESPONSES, MESSAGES):
        model = fake_model("Yes, please.")
        told = asyncio.run(run_graph(uri, model, [be_polite]))
        assert model.requests[0].messages[0] == {"role": "system", "content": "Be polite."}
        assert model.requests[0].sampling["max_tokens"] == 5
        assert told.whole["model"] == "kind"


def test_a_refused_request_is_answered_without_the_model() -> None:
    calls: list[str] = []

    @on_request
    async def guard_request(request: GenerationRequest) -> GenerationRequest:
        if "bomb" in request.last_text():
            raise Refusal("Not that.")
        return request

    @on_request
    async def behind_guard(request: GenerationRequest) -> GenerationRequest:
        calls.append(request.last_text())
        return request

    model = fake_model("Hi")
    nodes = [guard_request, behind_guard]
    assert asyncio.run(run_graph(CHAT, model, nodes)).text == "Hi"
    told = asyncio.run(run_graph(CHAT, model, nodes, text="a bomb"))
    [choice] = told.whole["choices"]
    assert choice["finish_reason"] == "content_filter"
    assert choice["message"]["refusal"] == "Not that."
    assert len(model.requests) == 1
    assert calls == ["Hello"]


def test_an_error_for_the_client_ends_the_request_with_its_status() -> None:
    @on_request
    async def limited(request: GenerationRequest) -> GenerationRequest:
        raise RequestError("slowly", code=Code.RESOURCE_EXHAUSTED, param="messages")

    told = asyncio.run(run_graph(CHAT, fake_model("Hi"), [limited]))
    assert told.packets == []
    assert isinstance(told.error, RequestError)
    assert (told.error.code, told.error.param) == (Code.RESOURCE_EXHAUSTED, "messages")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("uri", [CHAT, COMPLETIONS, RESPONSES, MESSAGES])
def test_a_function_answers_an_endpoint_without_a_model(uri: str, stream: bool) -> None:
    @answers
    async def parrot(request: GenerationRequest) -> AsyncIterator[str]:
        for word in (request.last_text() or "no text").split():
            yield word + " "

    told = asyncio.run(run_graph(uri, None, [parrot], text="one two", stream=stream))
    text = "".join(told.packets)
    assert told.error is None
    if stream:
        assert '"one "' in text
        assert '"two "' in text
        assert len(told.packets) == 3
    else:
        assert "one two " in text


def test_a_function_may_answer_with_events_and_items() -> None:
    @answers
    async def thinker(request: GenerationRequest) -> AsyncIterator[Any]:
        yield Reasoning("hm")
        yield "Well"
        for event in call("f", {"a": 1}):
            yield event
        yield Finished(0, FinishReason.TOOL_CALLS)
        yield Ended(Usage(3, 4))

    made = run(thinker, request_for(), tag="REQUEST")
    items = items_of(made)
    assert isinstance(items[0], Submitted)
    assert isinstance(items[1], Begun)
    assert text_of(made, kind="arguments") == '{"a": 1}'
    assert items[-2:] == [Finished(0, FinishReason.TOOL_CALLS), Ended(Usage(3, 4))]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_with_a_call_ends_with_it_and_has_a_usage(stream: bool) -> None:
    @answers
    async def caller(request: GenerationRequest) -> AsyncIterator[Any]:
        if request.last_text() == "time please":
            yield ToolCall("now", "call_1")
            yield Arguments("{}")
        else:
            yield "It is noon."

    for text, reason, words in [("time please", "tool_calls", 2), ("hi there", "stop", 3)]:
        options: dict[str, Any] = {"stream": stream}
        if stream:
            options["stream_options"] = {"include_usage": True}
        told = asyncio.run(run_graph(CHAT, None, [caller], text=text, **options))
        bodies = told.events if stream else [told.whole]
        reasons = [each["finish_reason"] for body in bodies for each in body["choices"]]
        assert [each for each in reasons if each is not None] == [reason]
        usage = bodies[-1]["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (2, words)


def test_every_choice_gets_what_a_function_answers() -> None:
    @answers
    async def twice(request: GenerationRequest) -> AsyncIterator[str]:
        yield "x"

    told = asyncio.run(run_graph(CHAT, None, [twice], n=2))
    assert [each["message"]["content"] for each in told.whole["choices"]] == ["x", "x"]


@pytest.mark.parametrize("stream", [False, True])
def test_each_prompt_of_a_completion_is_answered(stream: bool) -> None:
    @answers
    async def says(request: GenerationRequest) -> AsyncIterator[Any]:
        yield f"{request.last_text()}!"
        yield Ended(Usage(1, 2))

    told = asyncio.run(run_graph(COMPLETIONS, None, [says], prompt=["a", "b"], n=2, stream=stream))
    texts: dict[int, str] = {}
    for body in told.events if stream else [told.whole]:
        for choice in body["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    assert texts == {0: "a!", 1: "a!", 2: "b!", 3: "b!"}
    if not stream:
        assert told.whole["usage"]["completion_tokens"] == 4


def test_a_failure_on_one_prompt_ends_the_answer_to_all() -> None:
    @answers
    async def fussy(request: GenerationRequest) -> AsyncIterator[str]:
        yield "x"
        if request.last_text() == "b":
            raise ValueError("secret")

    asked = request_for(api=Api.COMPLETIONS, messages=(), prompts=("a", "b", "c"))
    items = items_of(run(fussy, asked, tag="REQUEST"))
    assert isinstance(items[-1], Failed)
    assert items[-1].request is asked
    assert [item.choice for item in items if isinstance(item, Gained)] == [0, 1]


def test_an_answer_that_is_stopped_before_its_function_runs_ends() -> None:
    @answers
    async def never(request: GenerationRequest) -> AsyncIterator[str]:
        yield "never"

    class StopsAtOnce(Calculator):
        deltas = In[Deltas]("DELTAS")
        passed = Out[Deltas]("DELTAS")

        def process(self, cc: CalculatorContext) -> None:
            for item in cc.get(self.deltas):
                if isinstance(item, Submitted):
                    item.stop()
            cc.emit(self.passed, cc.get(self.deltas))

    StopsAtOnce.__name__ = "stops"  # the names of its streams
    for prompt in ("a", ["a", "b"]):
        told = asyncio.run(run_graph(COMPLETIONS, None, [never, StopsAtOnce], prompt=prompt))
        assert {choice["text"] for choice in told.whole["choices"]} == {""}


def test_the_end_of_an_answer_can_be_a_failure_or_a_refusal() -> None:
    @answers
    async def fails(request: GenerationRequest) -> AsyncIterator[str]:
        yield "a"
        raise ValueError("secret")

    @answers
    async def turns_down(request: GenerationRequest) -> AsyncIterator[str]:
        yield "a"
        raise Refusal("No more.")

    @answers
    async def wrong(request: GenerationRequest) -> AsyncIterator[Any]:
        yield 5

    [*_, failed] = items_of(run(fails, request_for(), tag="REQUEST"))
    assert isinstance(failed, Failed)
    assert failed.error.message == 'node "fails" failed'
    items = items_of(run(turns_down, request_for(), tag="REQUEST"))
    assert items[-2] == Finished(0, FinishReason.CONTENT_FILTER)
    [*_, failed] = items_of(run(wrong, request_for(), tag="REQUEST"))
    assert isinstance(failed, Failed)


def test_an_answer_that_is_stopped_ends_in_order_and_leaves_its_blocks() -> None:
    notes: list[str] = []

    @answers
    async def endless(request: GenerationRequest) -> AsyncIterator[str]:
        try:
            while True:
                yield "x"
                await asyncio.sleep(0)
        finally:
            notes.append("left")

    @on_deltas
    async def enough(deltas: AsyncIterator[Delta]) -> AsyncIterator[Delta]:
        count = 0
        async for item in deltas:
            count += isinstance(item, Gained)
            if count > 3:
                return
            yield item

    told = asyncio.run(run_graph(CHAT, None, [endless, enough]))
    assert told.text == "xxx"
    assert told.whole["choices"][0]["finish_reason"] == "stop"
    assert notes == ["left"]


@options("tests.GreetingOptions")
class GreetingOptions:
    """Options of a node of a test."""

    word: str = "Hello"


def test_all_kinds_of_functions_take_options() -> None:
    @answers
    async def greets(request: GenerationRequest, how: GreetingOptions) -> AsyncIterator[str]:
        yield how.word

    @on_request
    async def renames(request: GenerationRequest, how: GreetingOptions) -> GenerationRequest:
        return request.answered_by(how.word)

    chosen = GreetingOptions(word="Moin")
    assert text_of(run(greets, request_for(), tag="REQUEST", options=chosen)) == "Moin"
    runner = CalculatorRunner(renames, options=chosen)
    runner.push("REQUEST", request_for())
    assert runner.run().outputs["REQUEST"].values[0].answer_model == "Moin"


def test_other_functions_are_refused_at_import() -> None:
    async def returns(request: GenerationRequest) -> GenerationRequest:
        return request

    async def yields(request: GenerationRequest) -> AsyncIterator[str]:
        yield ""

    with pytest.raises(AuthorError, match="yield"):
        answers(returns)  # type: ignore[arg-type]
    with pytest.raises(AuthorError, match="yield"):
        on_deltas(returns)  # type: ignore[arg-type]
    with pytest.raises(AuthorError, match="returns a request"):
        on_request(yields)  # type: ignore[arg-type]


def test_a_function_that_returns_no_request_is_named() -> None:
    @on_request
    async def forgetful(request: GenerationRequest) -> GenerationRequest:
        return None  # type: ignore[return-value]

    runner = CalculatorRunner(forgetful)
    runner.push("REQUEST", request_for())
    with pytest.raises(RunError, match=r"\.py:\d+\) returned None, no request"):
        runner.run()


def test_parts_of_a_request_are_read_as_usual_and_not_changed() -> None:
    given = {"role": "user", "content": [{"type": "text", "text": "Hello"}]}
    request = request_for("").with_messages(given).with_sampling(stop=["a"], seed=1)
    given["content"] = "changed later"
    (message,) = request.messages
    assert message == {"role": "user", "content": [{"type": "text", "text": "Hello"}]}
    assert json.loads(json.dumps(message)) == msgspec.json.decode(msgspec.json.encode(message))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message)) == message
    changes: list[Callable[[], object]] = [
        lambda: message.update(role="system"),
        lambda: message.pop("role"),
        lambda: message["content"][0].clear(),
        lambda: message["content"].append(1),
        lambda: message["content"].sort(),
        lambda: request.sampling["stop"].insert(0, "b"),
        lambda: message.__ior__({"a": 1}),
        lambda: message["content"].__iadd__([1]),
    ]
    for change in changes:
        with pytest.raises(AuthorMistake, match="cannot be changed in place"):
            change()
    for copied in (copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        copied["content"][0]["text"] = "mine"
        assert type(copied) is dict
    assert message["content"][0]["text"] == "Hello"
    again = request.with_messages(*request.messages)
    assert again.messages[0] is message
