"""Errors that clients raise: a status, and a text that names the fault."""

from __future__ import annotations

import pytest

from tests.process.kserve.asked import SPARE_OF
from tests.process.kserve.conftest import Seen

STATUS = {"NOT_FOUND": "404", "INVALID_ARGUMENT": "400", "INTERNAL": "500"}

#: By request, the code and a part of the text.
EXPECTED = {
    "no model": ("NOT_FOUND", ['"no-such-model"', "does not exist"]),
    "no version": ("NOT_FOUND", ['"add"', 'no version "7"']),
    "missing input": ("INVALID_ARGUMENT", ['"arithmetic" needs the input "right"']),
    "unknown input": ("INVALID_ARGUMENT", ['"passing" has no input "more"']),
    "wrong type": ("INVALID_ARGUMENT", ['inputs[0] "X"', "FP64, not FP32"]),
    "wrong shape": ("INVALID_ARGUMENT", ['inputs[0] "X"', "[3], not [2]"]),
    "missing parameter": ("INVALID_ARGUMENT", ['parameter "weight" is missing']),
    "unknown output": ("INVALID_ARGUMENT", ['"passing" has no output "most"']),
    "author's error": ("INVALID_ARGUMENT", ["left has the shape (1,), right has (2,)"]),
    "handler's error": ("INTERNAL", ["ValueError: scores have the shape (1, 2), not (n, 3)"]),
    "too hot": ("INVALID_ARGUMENT", ["temperature: 99 is above the maximum 2"]),
}

INTERNALS = ("Traceback", ".py", "/tmp", "line ")


@pytest.mark.parametrize("client", SPARE_OF)
def test_errors_have_a_status_and_a_reason(seen: Seen, client: str) -> None:
    told = seen(client)["errors"]
    assert list(told) == (["raw"] if "grpc" in client else ["binary", "json"])
    for errors in told.values():
        assert set(errors) == set(EXPECTED)
        for name, (status, text) in errors.items():
            code, words = EXPECTED[name]
            expected = f"StatusCode.{code}" if "grpc" in client else STATUS[code]
            assert (name, status) == (name, expected)
            assert [word for word in words if word not in text] == [], text
            assert not any(word in text for word in INTERNALS), text


#: How each way of abandoning a request ends in the client: with a status, or with a cancelled task.
GONE: dict[str, dict[str, str | bool]] = {
    "with_triton_grpc": {"call": "StatusCode.CANCELLED", "stream": "StatusCode.CANCELLED"},
    "with_triton_grpc_aio": {"call": True, "stream": True},
    "with_triton_http_aio": {"call": True},
}


@pytest.mark.parametrize("client", GONE)
def test_a_request_that_a_client_cancels_ends_in_the_server(seen: Seen, client: str) -> None:
    assert seen(client)["ended"] == {way: ["ended", end] for way, end in GONE[client].items()}


TIMEOUTS = {
    "with_triton_grpc": "StatusCode.DEADLINE_EXCEEDED",
    "with_triton_grpc_aio": "StatusCode.DEADLINE_EXCEEDED",
    "with_triton_http": "TimeoutError",
    "with_kserve_grpc": "StatusCode.DEADLINE_EXCEEDED",
    "with_kserve_rest": "ReadTimeout",
}


@pytest.mark.parametrize("client", TIMEOUTS)
def test_clients_that_do_not_wait_get_an_error(seen: Seen, client: str) -> None:
    told = seen(client)["timeout"]
    assert (told[0] if isinstance(told, list) else told) == TIMEOUTS[client]
