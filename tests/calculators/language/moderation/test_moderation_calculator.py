"""`ModerationCalculator`: refusals before a model and behind it, by rules and by a classifier."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from calculators.language import (
    Arguments,
    Begun,
    CallDone,
    Content,
    Deltas,
    Ended,
    Event,
    Failed,
    Finished,
    FinishReason,
    Gained,
    GenerationRequest,
    OrderCheck,
    Reasoning,
    Refusal,
    Refused,
    RequestError,
    Submitted,
    ToolCall,
    ToolCalled,
    ToolRan,
    Usage,
    call,
    delta_packets,
    every_cut,
    request_for,
    text_of,
)
from calculators.language.testing import events_of, items_of
from calculators.text.text_classification.node_options import TextClassificationCalculatorOVOptions
from graph_runtime import Code, GraphConfigError, RunError
from graph_runtime.testing import CalculatorRunner
from protos.pool import message_class

_Options: Any = message_class("graphrt.ModerationOptions")
_RULE = _Options(words=["bomb"], category="violence")
_NO = "I cannot help with that."


class Classifier:
    """A classifier that finds texts with "rude" to be harassment, in place of a model."""

    def __init__(self, error: RequestError | None = None) -> None:
        self.texts: list[list[str]] = []
        self._error = error

    async def flagged(self, texts: Sequence[str]) -> list[str]:
        self.texts.append(list(texts))
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        return ["harassment"] if any("rude" in text for text in texts) else []


def node(*ports: str, has_classifier: bool) -> str:
    side = 'input_side_packet: "TEXT_CLASSIFICATION_NODE_RESOURCES:all"' if has_classifier else ""
    return f'name: "guard" calculator: "ModerationCalculator" {" ".join(ports)} {side}'


def runner_of(options: Any, classifier: Classifier | None, *ports: str) -> CalculatorRunner:
    given: list[Any] = [options]
    sides: dict[Any, Any] = {}
    if classifier is not None:
        given.append(TextClassificationCalculatorOVOptions(models_path="guard"))
        sides["TEXT_CLASSIFICATION_NODE_RESOURCES"] = {"guard": classifier}
    text = node(*ports, has_classifier=classifier is not None)
    return CalculatorRunner(text, options=given, side_packets=sides)


def judge_request(
    request: GenerationRequest, options: Any = _RULE, classifier: Classifier | None = None
) -> GenerationRequest:
    """The request that a node before a model sends on."""
    runner = runner_of(
        options, classifier, 'input_stream: "REQUEST:a"', 'output_stream: "REQUEST:b"'
    )
    runner.push("REQUEST", request, at=0)
    runner.run()
    (passed,) = runner.outputs["REQUEST"].values
    assert isinstance(passed, GenerationRequest)
    return passed


def judge(
    packets: Sequence[Deltas],
    options: Any = _RULE,
    classifier: Classifier | None = None,
    *,
    request: GenerationRequest | None = None,
) -> list[Deltas]:
    """The packets of a node behind a model, with their order checked."""
    ports = ['input_stream: "DELTAS:a"', 'output_stream: "DELTAS:b"']
    if request is not None:
        ports.append('input_stream: "REQUEST:r"')
    runner = runner_of(options, classifier, *ports)
    if request is not None:
        runner.push("REQUEST", request, at=0)
    for time, packet in enumerate(packets):
        runner.push("DELTAS", packet, at=time)
    runner.run()
    made: list[Deltas] = runner.outputs["DELTAS"].values
    order = OrderCheck("guard")
    for packet in made:
        order.feed(packet)
    order.finish()
    return made


def ends_refused(made: Sequence[Deltas], category: str | None) -> bool:
    """Return whether the answer of choice 0 ends with a refusal."""
    items = items_of(made)
    return items[-3:-1] == [
        Gained(0, (Refused(_NO, category),)),
        Finished(0, FinishReason.CONTENT_FILTER),
    ] and isinstance(items[-1], Ended)


# Requests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "build a bomb"}],
        [{"role": "user", "content": [{"type": "text", "text": "a bomb"}]}],
        [{"role": "system", "content": "about a bomb"}, {"role": "user", "content": "go on"}],
        [
            {"role": "user", "content": "x"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "f", "arguments": '{"a": ["b\\u006fmb"]}'}}],
            },
        ],
    ],
)
def test_a_request_with_a_match_of_the_rules_goes_on_with_a_refusal(
    messages: list[dict[str, Any]],
) -> None:
    request = request_for().with_messages(*messages)
    refusal = judge_request(request).refusal
    assert refusal is not None
    assert (refusal.text, refusal.category) == (_NO, "violence")


def test_other_requests_go_on_unchanged() -> None:
    request = request_for("a bom b")
    assert judge_request(request) is request
    refused = request_for("bomb").refused(Refusal("before"))
    assert judge_request(refused) is refused


def test_a_long_text_of_a_request_is_searched_to_its_end() -> None:
    assert judge_request(request_for("a" * 5000 + "bomb")).refusal is not None
    assert judge_request(request_for("a" * 5000)).refusal is None


def test_the_classifier_reads_all_texts_of_a_request_at_once() -> None:
    classifier = Classifier()
    request = request_for("be rude")
    refusal = judge_request(request, _Options(), classifier).refusal
    assert refusal is not None
    assert refusal.category == "harassment"
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    assert judge_request(request.with_messages(*messages), _Options(), classifier).refusal is None
    assert classifier.texts == [["be rude"], ["a", "b"]]


def test_prompts_of_token_ids_cannot_be_moderated() -> None:
    with pytest.raises(RunError) as caught:
        judge_request(request_for(prompts=((1, 2),)))
    error = caught.value.errors[0].__cause__
    assert isinstance(error, RequestError)
    assert error.param == "prompt"


def test_a_refusal_may_be_an_error_of_the_request() -> None:
    with pytest.raises(RunError) as caught:
        judge_request(request_for("bomb"), _Options(words=["bomb"], **{"as": "ERROR"}))
    error = caught.value.errors[0].__cause__
    assert isinstance(error, RequestError)
    assert (error.code, error.reason) == (Code.INVALID_ARGUMENT, "content_filter")


# Answers by rules ---------------------------------------------------------------------------------


def test_an_answer_ends_where_a_match_would_begin_and_the_model_is_stopped() -> None:
    stopped: list[bool] = []
    packets = delta_packets("the bo", "mb is", " there", stop=lambda: stopped.append(True))
    made = judge(packets)
    assert text_of(made) == "the "
    assert ends_refused(made, "violence")
    assert stopped == [True]
    assert items_of(made)[-1] == Ended(Usage(1, 3))


def test_the_text_before_a_match_is_shown_however_it_is_cut() -> None:
    text = "a bo bomb b"
    for pieces in every_cut(text):
        made = judge(delta_packets(*pieces))
        assert text_of(made) == "a bo "
        assert ends_refused(made, "violence")
    made = judge(delta_packets([Reasoning("x bomb"), Content("y")]))
    assert not events_of(made)[:-1]
    made = judge(delta_packets("a", call("bomb", {}), "b"))
    assert [type(event) for event in events_of(made)] == [Content, Refused]


def test_text_that_is_no_match_goes_on_as_it_is() -> None:
    made = judge(delta_packets("the bo", "at", call("f", {"a": "bom"}), [Reasoning("b")]))
    assert text_of(made) == "the boat"
    assert text_of(made, kind="arguments") == '{"a": "bom"}'
    assert items_of(made)[-2] == Finished(0, FinishReason.STOP)


def test_a_call_is_shown_when_it_is_complete() -> None:
    begins: list[Event] = [ToolCall("f", "id"), Arguments('{"a": "bo')]
    fine: list[Event] = [Arguments('at"}'), CallDone('{"a": "boat"}', is_complete=True)]
    bad: list[Event] = [Arguments('mb"}'), CallDone('{"a": "bomb"}', is_complete=True)]
    made = judge(delta_packets("x", begins, fine))
    assert [len(events_of([packet])) for packet in made] == [1, 4]
    assert text_of(made, kind="arguments") == '{"a": "boat"}'
    made = judge(delta_packets("x", begins, bad))
    assert [type(event) for event in events_of(made)] == [Content, Refused]
    made = judge(delta_packets("x", begins))
    assert text_of(made, kind="arguments") == '{"a": "bo'


def test_all_open_choices_end_with_the_refusal() -> None:
    first = Begun(3, Usage(1, 0), request_for(n=3))
    packets = [
        Deltas([first, Gained(0, (Content("a"),)), Finished(0, FinishReason.STOP)]),
        Deltas([Gained(2, (Content("bomb"),))]),
        Deltas([Finished(1, FinishReason.STOP), Finished(2, FinishReason.STOP)]),
        Deltas([Ended(Usage(1, 4))]),
    ]
    finished = [item for item in items_of(judge(packets)) if isinstance(item, Finished)]
    assert [(each.choice, each.reason.value) for each in finished] == [
        (0, "stop"),
        (1, "content_filter"),
        (2, "content_filter"),
    ]


def test_an_error_comes_instead_of_a_refusal_while_nothing_was_shown() -> None:
    options = _Options(words=["bomb"], **{"as": "ERROR"})
    (item,) = items_of(judge(delta_packets("bo", "mb"), options))
    assert isinstance(item, Failed)
    assert item.error.reason == "content_filter"
    assert ends_refused(judge(delta_packets("a ", "bomb"), options), None)


# Answers by a classifier --------------------------------------------------------------------------


def test_text_waits_for_the_verdict_about_a_window() -> None:
    classifier = Classifier()
    packets = delta_packets("1234", "567", "89", "0", "abc", "d")
    made = judge(packets, _Options(window=6), classifier)
    assert [text_of([packet]) for packet in made] == ["", "1234567", "890abc", "d"]
    assert classifier.texts == [["1234567"], ["234567890abc"], ["890abcd"]]


def test_text_that_the_classifier_refuses_is_not_shown() -> None:
    stopped: list[bool] = []
    packets = delta_packets("good text ", "and ru", "de", stop=lambda: stopped.append(True))
    made = judge(packets, _Options(window=8), Classifier())
    assert text_of(made) == "good text "
    assert ends_refused(made, "harassment")
    assert stopped == [True]


def test_text_that_is_not_held_is_shown_before_its_verdict() -> None:
    packets = delta_packets("so rude", " and on", " and on")
    made = judge(packets, _Options(window=4, hold=False), Classifier())
    assert text_of(made) == "so rude"
    assert ends_refused(made, "harassment")
    made = judge(delta_packets("fine", "ly"), _Options(window=4, hold=False), Classifier())
    assert [text_of([packet]) for packet in made] == ["fine", "ly"]


@pytest.mark.parametrize("hold", [True, False])
def test_a_call_waits_for_its_verdict(hold: bool) -> None:
    options = _Options(hold=hold)
    good, bad = call("f", {"a": "b"}), call("f", {"a": ["ru\\u0064e"], "b": "rude"})
    made = judge(delta_packets("x", good[:1], good[1:]), options, Classifier())
    assert text_of(made, kind="arguments") == '{"a": "b"}'
    made = judge(delta_packets("x", bad[:1], bad[1:]), options, Classifier())
    assert not [event for event in events_of(made) if isinstance(event, ToolCall | Arguments)]
    assert ends_refused(made, "harassment")


def test_a_classifier_that_fails_lets_nothing_through() -> None:
    error = RequestError("the process is down", code=Code.UNAVAILABLE)
    made = judge(delta_packets("some text"), _Options(), Classifier(error))
    assert text_of(made) == ""
    assert items_of(made)[-1] == Failed(error)


# Tools of this server -----------------------------------------------------------------------------


@pytest.mark.parametrize("classifier", [None, Classifier()])
def test_calls_of_this_server_and_their_results_are_judged(classifier: Classifier | None) -> None:
    options = _Options(words=["bomb" if classifier is None else "nothing"])
    bad = "bomb" if classifier is None else "rude"
    category = None if classifier is None else "harassment"

    def answer(arguments: str, output: str) -> list[Deltas]:
        called = ToolCalled(0, "id", "f", "here", arguments)
        ran = ToolRan(0, "id", "f", "here", arguments, output, None, 0.1)
        first, last = delta_packets("a", "b")
        return judge([first, Deltas([called]), Deltas([ran]), last], options, classifier)

    made = answer('{"a": 1}', "fine")
    kinds = [type(item) for item in items_of(made)]
    assert kinds == [Begun, Gained, ToolCalled, ToolRan, Gained, Finished, Ended]
    made = answer('{"a": 1}', f"a {bad} thing")
    assert ToolCalled in map(type, items_of(made))
    assert ToolRan not in map(type, items_of(made))
    assert ends_refused(made, category)
    made = answer(f'{{"{bad}": 1}}', "fine")
    assert ToolCalled not in map(type, items_of(made))
    assert ends_refused(made, category)


# The request beside the answer --------------------------------------------------------------------


@pytest.mark.parametrize("is_error", [False, True])
def test_a_request_that_is_judged_beside_the_model_stops_it(is_error: bool) -> None:
    stopped: list[str] = []
    request = request_for("be rude")
    packets = [
        Deltas([Submitted(lambda: stopped.append("early"), "llm")]),
        *delta_packets("some", " text", request=request, stop=lambda: stopped.append("late")),
    ]
    options = _Options(**({"as": "ERROR"} if is_error else {}))
    made = judge(packets, options, Classifier(), request=request)
    assert stopped[0] == "early"
    assert text_of(made) == ""
    if is_error:
        failed = items_of(made)[-1]
        assert isinstance(failed, Failed)
        assert failed.error.reason == "content_filter"
        assert not [item for item in items_of(made) if isinstance(item, Begun)]
    else:
        assert ends_refused(made, "harassment")


def test_a_request_that_is_fine_loses_nothing() -> None:
    request = request_for("hello")
    packets = [Deltas([Submitted(lambda: None, "llm")]), *delta_packets("some", " text")]
    made = judge(packets, _Options(), Classifier(), request=request)
    assert text_of(made) == "some text"


def test_a_refused_request_whose_model_fails_is_refused() -> None:
    request = request_for("be rude")
    failed = Failed(RequestError("the queue is full"), request)
    made = judge([Deltas([failed])], _Options(), Classifier(), request=request)
    assert ends_refused(made, "harassment")


# Options ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (_Options(), "set words, patterns or a classifier: nothing would be refused"),
        (_Options(words=["a"], window=0), "window: 0 is not from 1 to 100000"),
        (_Options(patterns=["a+"]), "has a repeat without a bound"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_the_graph_runs(
    options: Any, text: str
) -> None:
    with pytest.raises(GraphConfigError, match=text):
        judge(delta_packets("a"), options)


@pytest.mark.parametrize(
    ("ports", "text"),
    [
        (('output_stream: "DELTAS:b"',), "it needs an input"),
        (('input_stream: "REQUEST:a"', 'output_stream: "DELTAS:b"'), "otherwise REQUEST"),
        (
            ('input_stream: "DELTAS:a"', 'output_stream: "DELTAS:b" output_stream: "REQUEST:c"'),
            "the output is DELTAS with the input DELTAS",
        ),
    ],
)
def test_ports_that_do_not_fit_are_refused(ports: tuple[str, ...], text: str) -> None:
    with pytest.raises(GraphConfigError, match=text):
        runner_of(_RULE, None, *ports).run()
