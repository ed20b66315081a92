"""Schemas of requests allow what is accepted, by OpenVINO Model Server's cases."""

from __future__ import annotations

from typing import Any, Final

import pytest

from calculators.llm.endpoints import ENDPOINTS
from tests.calculators.llm.api.openai.api_cases import exception_of, is_refused, load_api_cases
from tests.servers.fronts.openapi.described import Described

DESCRIBED: Final = Described()
#: Bodies that may be accepted for a reason that no schema expresses.
_EXCEPTIONS: Final = {
    "derived:chat/completions:ok#2": "what tools are is not looked at where none may be called",
}
_MODEL: Final = {"model": "demo"}


def path_of(case: dict[str, Any]) -> str | None:
    """Return the place of the document that describes a case's request."""
    name = case.get("endpoint", "").rsplit("?", 1)[0]
    for endpoint in ENDPOINTS:
        if endpoint.path != "/" and name.endswith(endpoint.path):
            return endpoint.paths()[0]
    return None


def bodies(*, refused: bool) -> list[Any]:
    return [
        pytest.param(path, {**_MODEL, **case["body"]}, id=case["id"])
        for case in load_api_cases()
        if isinstance(case.get("body"), dict)
        and (path := path_of(case)) is not None
        and case["level"] in ("http", "handler")
        and is_refused(case) is refused
        and not exception_of(case)
        and case["id"] not in _EXCEPTIONS
    ]


@pytest.mark.parametrize(("path", "body"), bodies(refused=False))
def test_accepted_requests_fit_the_schema(path: str, body: dict[str, Any]) -> None:
    assert DESCRIBED.request_errors(path, body) == []


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/v3/chat/completions", {"model": "demo"}, "messages"),
        ("/v3/chat/completions", {"model": "demo", "messages": []}, "messages"),
        ("/v3/completions", {"model": "demo", "prompt": 1}, "prompt"),
        ("/v3/completions", {"model": "demo", "prompt": "a", "temperature": 2.5}, "temperature"),
        ("/v3/completions", {"model": "demo", "prompt": "a", "top_k": -2}, "top_k"),
        ("/v3/responses", {"model": "demo", "input": "a", "n": 2}, "n"),
        ("/v3/messages", {"model": "demo", "messages": [{}], "max_tokens": 0}, "max_tokens"),
        ("/v3/tokenize", {"model": "demo", "text": []}, "text"),
        ("/v2/models/{model}/infer", {"inputs": [{"name": "a"}]}, "inputs"),
    ],
)
def test_refused_requests_do_not_fit_the_schema(
    path: str, body: dict[str, Any], place: str
) -> None:
    errors = DESCRIBED.request_errors(path, body)
    assert any(place in error for error in errors)


@pytest.mark.parametrize("name", ["temperature", "stop", "tools", "response_format", "timeout"])
def test_null_means_absent(name: str) -> None:
    body = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}], name: None}
    assert DESCRIBED.request_errors("/v3/chat/completions", body) == []
