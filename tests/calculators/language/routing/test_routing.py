"""RouterCalculator, FallbackCalculator and FirstAnswerCalculator, with scripted models."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.kit.requests.request_record import RequestRecord
from calculators.language import (
    Begun,
    Deltas,
    Ended,
    Failed,
    Finished,
    FinishReason,
    Gained,
    GenerationRequest,
    ImageReference,
    RequestError,
    Submitted,
    Tools,
    Usage,
    deltas,
    fake_model,
    request_for,
    text_of,
)
from calculators.language.routing.fallback_calculator import FirstAnswerCalculator
from graph_runtime import Code, GraphError, RunError, ValidationError
from graph_runtime.authoring.contract import PortKey
from graph_runtime.testing import CalculatorRunner

ROUTER = """
    calculator: "RouterCalculator" input_stream: "REQUEST:request" {inputs}
    output_stream: "REQUEST:0:a" output_stream: "REQUEST:1:b"
    node_options {{ [type.googleapis.com/graphrt.RouterOptions] {{ {routes} }} }}
"""
SIDE = 'input_side_packet: "LLM_NODE_RESOURCES:llm"'
LABEL = 'input_stream: "LABEL:label"'


def runner_of(
    routes: str, inputs: str = "", models: dict[str, Any] | None = None
) -> CalculatorRunner:
    sides: dict[PortKey, Any] = {} if models is None else {"LLM_NODE_RESOURCES": models}
    inputs += SIDE if models is not None else ""
    return CalculatorRunner(ROUTER.format(routes=routes, inputs=inputs), side_packets=sides)


def route_of(
    routes: str, request: GenerationRequest, models: dict[str, Any] | None = None
) -> tuple[str, GenerationRequest]:
    runner = runner_of(routes, models=models)
    runner.push("REQUEST", request, at=0)
    runner.run()
    [(name, sent)] = [
        (name, value)
        for name, key in (("a", ("REQUEST", 0)), ("b", ("REQUEST", 1)))
        for value in runner.outputs[key].values
    ]
    return name, sent


@pytest.mark.parametrize(
    ("condition", "taken", "left"),
    [
        ("max_prompt_characters: 5", request_for("Hello"), request_for("Hello!")),
        ("min_prompt_characters: 6", request_for("Hello!"), request_for("Hello")),
        ('word: "code" word: "Tür"', request_for("write CODE, please"), request_for("a decoder")),
        (r'expression: "^\\d+ ?[+] ?\\d+$"', request_for("1 + 2"), request_for("1 and 2")),
        ('model: "fast-*"', request_for("x", model="fast-1"), request_for("x", model="Fast-1")),
        (
            "has_tools: true",
            request_for("x", tools=Tools([{"type": "function"}], "auto")),
            request_for("x"),
        ),
        (
            "has_images: false",
            request_for("x"),
            request_for("x", images=(ImageReference("data:", "messages"),)),
        ),
        (
            'word: "code" max_prompt_characters: 8',
            request_for("code"),
            request_for("code, and more of it"),
        ),
    ],
)
def test_a_route_takes_the_requests_of_its_conditions(
    condition: str, taken: GenerationRequest, left: GenerationRequest
) -> None:
    routes = f'route {{ name: "one" {condition} }} route {{ name: "other" }}'
    assert route_of(routes, taken)[0] == "a"
    assert route_of(routes, left)[0] == "b"


TWO = 'route { name: "small" max_prompt_characters: 9 max_waiting: 2 } route { name: "large" }'


def test_the_route_is_in_the_answers_model_and_in_the_record() -> None:
    record = RequestRecord("r")
    _, sent = route_of(TWO.replace("max_waiting: 2", ""), request_for("Hello", record=record))
    assert (sent.model, sent.answer_model) == ("test", "small")
    assert [each[:3] for each in record.routes] == [("small", "max_prompt_characters", ())]
    routes = 'model_in_answer: CLIENT route { name: "small" word: "x" } route { name: "large" }'
    name, sent = route_of(routes, request_for("Hello"))
    assert (name, sent.answer_model) == ("b", "")


def test_a_full_or_broken_model_is_passed_over_and_then_the_least_busy_one_is_taken() -> None:
    small, large = fake_model("s"), fake_model("l")
    models = {"small": small, "large": large}
    record = RequestRecord("r")
    small.unfinished = 1
    assert route_of(TWO, request_for("Hello"), models)[0] == "a"
    small.unfinished = 2
    assert route_of(TWO, request_for("Hello", record=record), models)[0] == "b"
    assert record.routes[0][:3] == ("large", "default", ("small",))
    small.unfinished, small.unavailable_reason = 0, "it has crashed"
    assert route_of(TWO, request_for("Hello"), models)[0] == "b"

    full = TWO.replace('"large"', '"large" max_waiting: 4')
    small.unfinished, small.unavailable_reason, large.unfinished = 5, "", 4
    assert route_of(full, request_for("Hello", record=record), models)[0] == "b"
    assert record.routes[1][:3] == ("large", "least waiting", ("small",))
    large.unfinished = 6
    assert route_of(full, request_for("Hello"), models)[0] == "a"


def test_a_route_by_label_takes_what_a_classifier_says() -> None:
    routes = 'route { name: "code" label: "code" label: "sql" } route { name: "rest" }'
    for label, port in (("sql", 0), ("poem", 1)):
        runner = runner_of(routes, LABEL)
        runner.push("REQUEST", request_for("Hello"), at=3)
        runner.push("LABEL", label, at=3)
        runner.run()
        assert len(runner.outputs["REQUEST", port].values) == 1
        assert runner.outputs["REQUEST", 1 - port].values == []


@pytest.mark.parametrize(
    ("routes", "told"),
    [
        ("", "no route"),
        ('route { name: "a" }', "there are 1 routes and 2 streams"),
        ('route { name: "a" } route { name: "a" }', 'two routes are called "a"'),
        ('route { name: "a" } route { word: "b" }', "a route has no name"),
        ('route { name: "a" } route { name: "b" word: "b" }', "leave out word"),
        ('route { name: "a" expression: "(" } route { name: "b" }', 'the expression "(" is wrong'),
        ('route { name: "a" word: "" } route { name: "b" }', "an empty text is in every request"),
        (
            'route { name: "a" min_prompt_characters: 9 max_prompt_characters: 8 } '
            'route { name: "b" }',
            "min_prompt_characters 9 is above max_prompt_characters 8",
        ),
        ('route { name: "a" label: "x" } route { name: "b" }', 'connect input_stream: "LABEL:'),
        ('route { name: "a" max_waiting: 1 } route { name: "b" }', "LLM_NODE_RESOURCES:llm"),
    ],
)
def test_options_that_cannot_work_are_refused_at_load(routes: str, told: str) -> None:
    with pytest.raises((ValidationError, GraphError)) as caught:
        route_of(routes, request_for("Hello"))
    assert told in str(caught.value)


def test_a_route_without_its_node_is_named() -> None:
    with pytest.raises(RunError, match='no node "large" has a language model; the graph has small'):
        route_of(TWO, request_for("Hello"), {"small": fake_model()})


# Fall-back ------------------------------------------------------------------------------------

FALLBACK = """
    calculator: "FallbackCalculator" input_stream: "DELTAS:in"
    output_stream: "DELTAS:out" output_stream: "REQUEST:again"
    node_options { [type.googleapis.com/graphrt.FallbackOptions] { OPTIONS } }
"""
REQUEST = request_for("Hello").answered_by("small")


def failed(code: Code) -> Failed:
    return Failed(RequestError("it failed", code=code), REQUEST)


def fall_back(*packets: Deltas, options: str = "") -> tuple[list[Deltas], list[GenerationRequest]]:
    runner = CalculatorRunner(FALLBACK.replace("OPTIONS", options))
    for time, packet in enumerate(packets):
        runner.push("DELTAS", packet, at=time)
    runner.run()
    return runner.outputs["DELTAS"].values, runner.outputs["REQUEST"].values


BEGUN = Begun(1, Usage(1, 0), REQUEST)


@pytest.mark.parametrize(
    "code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "OUT_OF_RANGE"]
)
@pytest.mark.parametrize(
    "before", [(), (Deltas((Submitted(lambda: None),)),), (Deltas((BEGUN, Gained(0, ()))),)]
)
def test_a_failure_before_anything_was_shown_asks_again(
    code: str, before: tuple[Deltas, ...]
) -> None:
    shown, again = fall_back(*before, Deltas((failed(Code(code)),)), options='model: "large"')
    assert not any(isinstance(item, Begun | Failed) for packet in shown for item in packet)
    assert [request.answer_model for request in again] == ["large"]


def test_after_text_was_shown_a_failure_is_a_failure() -> None:
    failure = Deltas((failed(Code.UNAVAILABLE),))
    shown, again = fall_back(deltas("Hel", finish=None), failure)
    assert (text_of(shown), shown[-1], again) == ("Hel", failure, [])


def test_errors_of_the_request_and_failures_that_were_not_named_go_on() -> None:
    for code, options in ((Code.INVALID_ARGUMENT, ""), (Code.UNAVAILABLE, "on: OUT_OF_RANGE")):
        failure = Deltas((failed(code),))
        shown, again = fall_back(Deltas((BEGUN,)), failure, options=options)
        assert (shown, again) == ([failure], [])


def test_the_beginning_is_shown_with_the_first_text() -> None:
    end = Deltas((Finished(0, FinishReason.STOP), Ended(Usage(1, 1))))
    shown, again = fall_back(
        Deltas((BEGUN,)), Deltas((Gained(0, ()),)), deltas("Hi", begins=False), end
    )
    assert [type(item).__name__ for item in shown[0]] == [
        "Begun", "Gained", "Gained", "Finished", "Ended",
    ]  # fmt: skip
    assert again == []


def test_the_name_of_a_route_that_failed_does_not_stay_in_the_answer() -> None:
    record = RequestRecord("r")
    request = request_for("Hello", record=record).answered_by("small")
    failure = Failed(RequestError("full", code=Code.RESOURCE_EXHAUSTED), request)
    _, [again] = fall_back(Deltas((failure,)))
    assert again.answer_model == ""
    assert record.routes[0][:2] == ("FallbackCalculator", "RESOURCE_EXHAUSTED")


# Joining --------------------------------------------------------------------------------------


def test_branches_join_without_a_handler_and_out_of_order() -> None:
    runner = CalculatorRunner(FirstAnswerCalculator, inputs=[("DELTAS", 0), ("DELTAS", 1)])
    runner.push(("DELTAS", 1), deltas("Hel", finish=None), at=10)
    runner.push(("DELTAS", 1), deltas("lo", begins=False), at=20)
    runner.run()
    assert text_of(runner.outputs["DELTAS"]) == "Hello"
    assert [int(time) for time in runner.outputs["DELTAS"].timestamps] == [10, 20]
