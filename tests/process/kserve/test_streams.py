"""Streams of tritonclient.grpc, blocking and asynchronous."""

from __future__ import annotations

from typing import Any

import pytest

from tests.process.kserve.asked import MAX_TOKENS
from tests.process.kserve.conftest import Seen

both_clients = pytest.mark.parametrize("client", ["with_triton_grpc", "with_triton_grpc_aio"])

FINAL = "triton_final_response"


def answers(told: list[Any], output: str) -> list[tuple[str, Any, Any]]:
    """Return id, timestamp and values of each answer with this output."""
    return [
        (each["id"], each["parameters"].get("OVMS_MP_TIMESTAMP"), each["outputs"][output])
        for each in told
        if isinstance(each, dict) and output in each["outputs"]
    ]


def errors(told: list[Any]) -> list[list[Any]]:
    """Return status and text of each error; errors of one request have no status."""
    return [each for each in told if isinstance(each, list)]


@both_clients
def test_inputs_may_arrive_apart_with_their_timestamps(seen: Seen, client: str) -> None:
    told = seen(client)["streams"]["timestamps"]
    assert answers(told, "average") == [
        ("both", 10, [300]),
        ("kelvin", 20, [300]),
        ("good", 21, [300]),
    ]
    assert answers(told, "density") == [("both", 10, [1]), ("pascal", 20, [1]), ("good", 21, [1])]


@both_clients
def test_a_bad_request_fails_alone(seen: Seen, client: str) -> None:
    told = errors(seen(client)["streams"]["timestamps"])
    assert [status for status, _ in told] == [None, None, None]
    late, unknown, wrong_type = (text for _, text in told)
    assert "the timestamp 15 is not after 20" in late
    assert 'no input "humidity"' in unknown
    assert 'input "temperature": FP64' in wrong_type


@both_clients
def test_requests_without_a_timestamp_are_counted(seen: Seen, client: str) -> None:
    told = seen(client)["streams"]["counted"]
    assert answers(told, "out") == [(str(n), n, [n]) for n in range(3)]
    assert errors(told) == []


@both_clients
def test_each_request_says_which_outputs_it_wants(seen: Seen, client: str) -> None:
    told = seen(client)["streams"]["one output"]
    assert answers(told, "density") == [("one", 0, [1]), ("all", 1, [1])]
    assert answers(told, "average") == [("all", 1, [300])]
    assert errors(told) == []


@both_clients
def test_a_stream_belongs_to_its_first_model(seen: Seen, client: str) -> None:
    told = seen(client)["streams"]["other model"]
    assert answers(told, "out") == [("first", 0, [1]), ("last", 1, [2])]
    ((status, text),) = errors(told)
    assert status is None
    assert text.startswith('Subsequent request with incorrect servable name "sensor"')


@both_clients
def test_parameters_of_the_first_request_apply_to_the_run(seen: Seen, client: str) -> None:
    told = seen(client)["streams"]["side packet"]
    assert answers(told, "sum") == [("first", 0, [6, 12]), ("second", 1, [6, 12])]
    assert errors(told) == []


@both_clients
def test_each_word_of_a_generator_is_an_answer(seen: Seen, client: str) -> None:
    told = seen(client)["streams"]["generator"]
    words = [(id, time, bytes(values).decode()) for id, time, values in answers(told, "uppercase")]
    assert words == [("words", 40, "THE"), ("words", 41, "QUICK"), ("words", 42, "FOX")]
    assert errors(told) == []


@both_clients
def test_a_generator_that_raises_ends_the_stream_with_its_error(seen: Seen, client: str) -> None:
    first, last = seen(client)["streams"]["failing generator"]
    assert bytes(first["outputs"]["uppercase"]) == b"ONE"
    status, text = last
    assert status == "StatusCode.INTERNAL"
    assert text.endswith("ValueError: this word is not liked")


@both_clients
def test_a_plain_model_accepts_a_stream(seen: Seen, client: str) -> None:
    told = seen(client)["streams"]["plain model"]
    assert sorted((id, values) for id, _, values in answers(told, "SUM")) == [
        (str(n), [n + 2, n + 2]) for n in range(3)
    ]


def pieces(told: list[Any], id: str) -> tuple[list[str], list[bool], list[str]]:
    """Return the texts of a request's answers, which are marked as last, and the last's outputs."""
    mine = [each for each in told if each["id"] == id]
    texts = ["".join(each["outputs"].get("text_output", [])) for each in mine]
    return texts, [each["parameters"][FINAL] for each in mine], list(mine[-1]["outputs"])


@both_clients
def test_texts_arrive_piece_by_piece(seen: Seen, client: str, text: str) -> None:
    told = seen(client)["streams"]["language model"]
    for id in "ab":
        texts, finals, _ = pieces(told, id)
        assert "".join(texts) == text
        # Pieces that wait for the client are joined, so a busy machine has fewer.
        assert 1 < len(texts) <= MAX_TOKENS + 1
        assert finals == [False] * (len(finals) - 1) + [True]


def test_an_empty_answer_marks_the_end_on_request(seen: Seen, text: str) -> None:
    """The asynchronous client cannot request it."""
    told = seen("with_triton_grpc")["empty_final"]
    for id in "ab":
        texts, finals, last = pieces(told, id)
        assert "".join(texts) == text
        assert finals == [False] * (len(finals) - 1) + [True]
        assert last == []
