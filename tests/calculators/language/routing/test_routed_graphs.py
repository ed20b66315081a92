"""Graphs with routers, fall-backs and races of scripted models."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from calculators.kit.requests.request_record import RequestRecord
from calculators.language import (
    Begun,
    Deltas,
    Ended,
    Failed,
    RequestError,
    Usage,
    fake_model,
    request_for,
    text_of,
)
from calculators.language.testing import items_of
from graph_runtime import Code
from tests.calculators.language.nodes import in_order
from tests.calculators.language.scripted_graphs import model_node, run_requests

ROUTED = (
    """
    node {
      name: "router" calculator: "RouterCalculator" input_stream: "REQUEST:request"
      output_stream: "REQUEST:0:short" output_stream: "REQUEST:1:long"
      input_side_packet: "LLM_NODE_RESOURCES:llm"
      node_options { [type.googleapis.com/graphrt.RouterOptions] {
        route { name: "small" max_prompt_characters: 10 max_waiting: 4 } route { name: "large" }
      } }
    }
    node {
      calculator: "FallbackCalculator" input_stream: "DELTAS:attempt"
      output_stream: "DELTAS:a" output_stream: "REQUEST:again"
      node_options { [type.googleapis.com/graphrt.FallbackOptions] { model: "large" } }
    }
    node {
      calculator: "FirstAnswerCalculator" input_stream: "DELTAS:0:a" input_stream: "DELTAS:1:b"
      output_stream: "DELTAS:answer"
    }
    """
    + model_node("small", "attempt", "short", options="first_token_seconds: 0.05")
    + model_node("large", "b", "long", "again")
)
RACE = (
    model_node("small", "a", "request")
    + model_node("large", "b", "request")
    + """
    node {
      calculator: "FirstAnswerCalculator" input_stream: "DELTAS:0:a" input_stream: "DELTAS:1:b"
      output_stream: "DELTAS:answer"
    }
    """
)


def answered(text: str, models: dict[str, Any], *requests: Any) -> list[Deltas]:
    packets = asyncio.run(run_requests(text, models, *requests))
    return in_order(packets)


def begun_in(packets: list[Deltas]) -> Begun:
    [begun] = [item for item in items_of(packets) if isinstance(item, Begun)]
    return begun


def test_a_request_takes_its_route_and_the_other_model_sees_nothing() -> None:
    small, large = fake_model("sm", "all"), fake_model("la", "rge")
    packets = answered(ROUTED, {"small": small, "large": large}, request_for("short"))
    assert (text_of(packets), begun_in(packets).model) == ("small", "small")
    assert large.requests == []
    packets = answered(ROUTED, {"small": small, "large": large}, request_for("much longer text"))
    assert (text_of(packets), begun_in(packets).model) == ("large", "large")


@pytest.mark.parametrize(
    "small",
    [
        fake_model(error=RequestError("down", code=Code.UNAVAILABLE), fails_after=0),
        fake_model("x", error=RequestError("long", code=Code.OUT_OF_RANGE), fails_after=0),
        fake_model("too late", delay=3600),
    ],
    ids=["fails", "too long", "slow"],
)
def test_a_model_that_cannot_answer_is_replaced_and_nobody_sees_it(small: Any) -> None:
    record = RequestRecord("r")
    large = fake_model("la", "rge")
    request = request_for("short", record=record)
    packets = answered(ROUTED, {"small": small, "large": large}, request)
    assert (text_of(packets), begun_in(packets).model) == ("large", "large")
    assert [each.name for each in record.routes] == ["small", "large"]
    assert items_of(packets)[-1] == Ended(Usage(1, 2))  # of the large one alone


def test_when_both_fail_the_second_failure_is_the_answer() -> None:
    down = RequestError("the small one is down", code=Code.UNAVAILABLE)
    full = RequestError("the large one is full", code=Code.RESOURCE_EXHAUSTED)
    models = {
        "small": fake_model(error=down, fails_after=0),
        "large": fake_model(error=full, fails_after=0),
    }
    packets = answered(ROUTED, models, request_for("short"))
    [failed] = [item for item in items_of(packets) if isinstance(item, Failed)]
    assert str(failed.error) == "the large one is full"


def test_a_failure_of_the_only_model_that_was_asked_goes_on() -> None:
    wrong = RequestError("temperature: 9 is above the maximum 2")
    models = {"small": fake_model(error=wrong, fails_after=0), "large": fake_model("x")}
    packets = answered(ROUTED, models, request_for("short"))
    assert [str(item.error) for item in items_of(packets) if isinstance(item, Failed)] == [
        str(wrong)
    ]
    assert models["large"].requests == []


def test_a_failure_after_text_is_the_end_of_the_answer() -> None:
    models = {"small": fake_model("half", "of it", fails_after=1), "large": fake_model("x")}
    packets = answered(ROUTED, models, request_for("short"))
    assert text_of(packets) == "half"
    assert isinstance(items_of(packets)[-1], Failed)
    assert models["large"].requests == []


def test_the_fastest_wins_a_race_and_the_others_are_stopped() -> None:
    fast, slow = fake_model("fast", delay=0.001), fake_model("slow", delay=3600)
    packets = answered(RACE, {"small": slow, "large": fast})
    assert text_of(packets) == "fast"
    assert (slow.stopped, slow.unfinished) == (1, 0)


def test_a_race_survives_the_failure_of_the_first() -> None:
    models = {"small": fake_model(fails_after=0), "large": fake_model("well", delay=0.01)}
    assert text_of(answered(RACE, models)) == "well"
