"""Tensors arrive unchanged, whichever client sends them and in whatever encoding."""

from __future__ import annotations

from typing import Any

import pytest

from tests.process.kserve.asked import ANSWERED, MAX_TOKENS, PASSED, SPARE_OF, told
from tests.process.kserve.conftest import Seen

WAYS = {
    "with_triton_grpc": ["raw", "gzip", "async"],
    "with_triton_grpc_aio": ["together", "gzip"],
    "with_triton_http": [
        *(
            f"{way}, {algorithm}"
            for way in ("binary", "json")
            for algorithm in (None, "gzip", "deflate")
        ),
        "async",
    ],
    "with_kserve_grpc": ["binary", "json"],
    "with_kserve_rest": ["binary", "json"],
}
WAYS["with_triton_http_aio"] = [*WAYS["with_triton_http"][:-1], "together"]

#: Version and outputs; for the language model a text follows.
EXPECTED: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: ("1", {"out": [name, list(each.shape), told(each)]}) for name, each in PASSED.items()},
    "two outputs": ("1", {"sum": ["FP32", [2], [21.0, 42.0]], "largest": ["FP64", [1], [42.0]]}),
    "one output": ("1", {"largest": ["FP64", [1], [42.0]]}),
    "latest version": ("2", {"SUM": ["FP32", [2], [3.0, 4.0]]}),
    "version 1": ("1", {"SUM": ["FP32", [2], [2.0, 3.0]]}),
    "handler": ("1", {"uppercase": ["BYTES", [2], ["ONE", "TWO THREE"]]}),
    "converters": (
        "1",
        {
            "labels": ["BYTES", [2], ["banana", "cherry"]],
            "probabilities": [
                "FP32",
                [2, 3],
                [
                    pytest.approx([0.0996, 0.7361, 0.1643], abs=1e-4),
                    pytest.approx([0.1065, 0.1065, 0.7870], abs=1e-4),
                ],
            ],
        },
    ),
}


def expected(name: str, text: str, *, knows_version: bool) -> dict[str, Any]:
    if name == "language model":
        end = ["BYTES", [1], ["length"]]
        version, outputs = "1", {"text_output": ["BYTES", [1], [text]], "finish_reason": end}
    else:
        version, outputs = EXPECTED[name]
    asked = ANSWERED[name]
    return {
        "model": asked.model,
        "version": version if knows_version else None,
        "id": asked.id,
        "outputs": outputs,
    }


@pytest.mark.parametrize(("client", "way"), [(name, way) for name in WAYS for way in WAYS[name]])
def test_every_request_is_answered(seen: Seen, text: str, client: str, way: str) -> None:
    answers = seen(client)["answers"][way]
    # kserve's client drops the version of REST's answers.
    knows_version = client != "with_kserve_rest"
    names = [name for name in ANSWERED if name != "FP16" or "json" not in way]
    assert answers == {n: expected(n, text, knows_version=knows_version) for n in names}


def test_the_encodings_are_those_of_the_clients(seen: Seen) -> None:
    assert {name: list(seen(name)["answers"]) for name in SPARE_OF} == WAYS


def test_the_text_has_the_requested_length(text: str) -> None:
    assert len(text) > MAX_TOKENS


@pytest.mark.parametrize("client", [name for name in SPARE_OF if "triton_http" in name])
def test_each_output_has_the_requested_encoding(seen: Seen, client: str) -> None:
    assert seen(client)["encodings"] == {"sum": "binary", "largest": "json"}


def test_bodies_written_by_a_library_can_be_sent_by_any_client(seen: Seen, text: str) -> None:
    answer = seen("with_triton_http")["own_transport"]
    assert answer == expected("BYTES", text, knows_version=True)


@pytest.mark.parametrize("client", [name for name in SPARE_OF if "triton" in name])
def test_tensors_of_10_mb_pass(seen: Seen, client: str) -> None:
    assert seen(client)["big"] is True


@pytest.mark.parametrize("client", [name for name in SPARE_OF if "triton" in name])
def test_parameters_of_tritons_clients_do_no_harm(seen: Seen, text: str, client: str) -> None:
    assert seen(client)["own"] == expected("latest version", text, knows_version=True)
