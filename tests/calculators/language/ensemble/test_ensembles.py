"""JudgeCalculator and CommonAnswerCalculator, with scripted models."""

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
    Finished,
    FinishReason,
    Reasoning,
    Refused,
    RequestError,
    Usage,
    call,
    deltas,
    every_cut,
    fake_model,
    request_for,
    text_of,
)
from calculators.language.testing import events_of, items_of
from graph_runtime import ValidationError
from graph_runtime.testing import CalculatorRunner
from tests.calculators.language.nodes import in_order
from tests.calculators.language.scripted_graphs import model_node, run_requests

JUDGED = (
    model_node("one", "a", "request")
    + model_node("two", "b", "request")
    + """
    node {
      name: "choice" calculator: "JudgeCalculator" input_stream: "DELTAS:0:a"
      input_stream: "DELTAS:1:b" input_stream: "VERDICT:verdict" output_stream: "REQUEST:question"
      output_stream: "DELTAS:answer"
    }
    """
    + model_node("judge", "verdict", "question")
)


def judged(one: Any, two: Any, judge: Any, **fields: Any) -> list[Deltas]:
    models = {"one": one, "two": two, "judge": judge}
    packets = asyncio.run(run_requests(JUDGED, models, request_for("Why?", **fields)))
    return in_order(packets)


def test_the_judge_sees_question_and_answers_and_its_choice_is_sent_whole() -> None:
    record = RequestRecord("r")
    judge = fake_model("Answer", " 2", " is better")
    packets = judged(fake_model("be", "cause"), fake_model("so"), judge, record=record)
    assert text_of(packets) == "so"
    assert len([packet for packet in packets if any(isinstance(i, Begun) for i in packet)]) == 1
    [question] = judge.requests
    assert question.sampling == {"temperature": 0, "max_tokens": 16}
    assert [message["role"] for message in question.messages] == ["system", "user"]
    assert question.messages[1]["content"] == (
        "Question:\nWhy?\n\nAnswer 1:\nbecause\n\nAnswer 2:\nso"
    )
    assert [route.why for route in record.routes] == ["judge"]


def test_usage_is_the_sum_of_answers_and_verdict() -> None:
    judge = fake_model("1")
    packets = judged(fake_model("be", "cause"), fake_model("so"), judge)
    asked = len(judge.requests[0].messages[0]["content"].split()) + 7
    assert items_of(packets)[-1] == Ended(Usage(1 + 1 + asked, 2 + 1 + 1))


@pytest.mark.parametrize("verdict", ["", "7", "0", "none of them", "9" * 5000])
def test_a_verdict_without_a_number_of_an_answer_takes_the_first(verdict: str) -> None:
    assert text_of(judged(fake_model("a"), fake_model("b"), fake_model(verdict))) == "a"


def test_a_judge_that_fails_takes_the_first() -> None:
    packets = judged(fake_model("a"), fake_model("b"), fake_model(fails_after=0))
    assert text_of(packets) == "a"


def test_one_answer_that_is_left_and_equal_answers_need_no_judge() -> None:
    judge = fake_model("2")
    assert text_of(judged(fake_model(fails_after=0), fake_model("b"), judge)) == "b"
    assert text_of(judged(fake_model("sa", "me"), fake_model("same"), judge)) == "same"
    assert judge.requests == []


def test_if_all_fail_the_failure_goes_on() -> None:
    packets = judged(fake_model(fails_after=0), fake_model("x", fails_after=1), fake_model("1"))
    shown = [item for item in items_of(packets) if isinstance(item, Failed | Begun)]
    assert [type(item) for item in shown] == [Failed]


def test_a_judge_of_one_answer_is_refused_at_load() -> None:
    with pytest.raises(ValidationError, match="needs several answers"):
        asyncio.run(run_requests(JUDGED.replace('input_stream: "DELTAS:1:b"', ""), {}))


# The common beginning ---------------------------------------------------------------------------


def common(*answers: list[Deltas]) -> list[Deltas]:
    """Feed the packets of each answer in turn."""
    keys = [("DELTAS", place) for place in range(len(answers))]
    runner = CalculatorRunner("CommonAnswerCalculator", inputs=keys)
    time = 0
    for turn in range(max(map(len, answers))):
        for key, answer in zip(keys, answers, strict=True):
            if turn < len(answer):
                runner.push(key, answer[turn], at=time)
                time += 1
    runner.run()
    packets = runner.outputs["DELTAS"].values
    return in_order(packets, is_complete=False)


def packets_of(
    pieces: list[str], finish: str = "stop", stops: list[str] | None = None
) -> list[Deltas]:
    stop = (lambda: stops.append("stopped")) if stops is not None else (lambda: None)
    packets = [
        deltas(piece, finish=None, begins=not place, stop=stop)
        for place, piece in enumerate(pieces)
    ]
    return [*packets, deltas(finish=finish, begins=not packets)]


def test_the_common_beginning_does_not_depend_on_cuts() -> None:
    for cut in every_cut("abcde"):
        for other in (["abcdx"], ["ab", "cdx"], list("abcdx")):
            assert text_of(common(packets_of(cut), packets_of(other))) == "abcd"


def test_the_text_ends_where_answers_part_and_all_are_stopped() -> None:
    stops: list[str] = []
    packets = common(
        packets_of(["The ", "sky is blue"], stops=stops), packets_of(["The sky was"], stops=stops)
    )
    assert text_of(packets) == "The sky "
    assert len(stops) == 2
    assert items_of(packets)[-1] == Ended(Usage(2, 0))
    [finished] = [item for item in items_of(packets) if isinstance(item, Finished)]
    assert finished.reason is FinishReason.STOP


def test_equal_answers_are_shown_as_they_grow_with_their_own_reason() -> None:
    packets = common(packets_of(["a", "b"], "length"), packets_of(["a", "b"], "length"))
    assert text_of(packets) == "ab"
    assert [text_of([packet]) for packet in packets if text_of([packet])] == ["a", "b"]
    [finished] = [item for item in items_of(packets) if isinstance(item, Finished)]
    assert finished.reason is FinishReason.LENGTH


def test_reasoning_is_left_out_and_a_call_ends_the_text() -> None:
    thinking = [deltas(Reasoning("hm"), "Let me see", call("look", {}), finish=None)]
    packets = common([*thinking, deltas(begins=False)], packets_of(["Let me see: it rains"]))
    assert text_of(packets) == "Let me see"
    assert text_of(packets, kind="reasoning") == ""


def test_a_refusal_is_the_end_of_all() -> None:
    refused = [deltas("I ", Refused("no"), finish="content_filter")]
    packets = common(refused, packets_of(["I ", "will"]))
    assert text_of(packets) == "I "
    assert events_of(packets)[-1] == Refused("no")
    [finished] = [item for item in items_of(packets) if isinstance(item, Finished)]
    assert finished.reason is FinishReason.CONTENT_FILTER


def test_answers_that_fail_do_not_take_part() -> None:
    failed = [Deltas((Failed(RequestError("down"), request_for("x")),))]
    assert text_of(common(failed, packets_of(["a", "b"]), packets_of(["ab"]))) == "ab"
    assert items_of(common(failed, failed)) == list(failed[0])
    broken = [deltas("a", finish=None), *failed]
    assert text_of(common(broken, packets_of(["ab", "c"]))) == "abc"
