"""OpenVINO Model Server's cases that generate, answered by the demo model.

The file lies beside the checkout. Its models are others, so what hangs on their words does not
count; what counts is that the same is accepted, and that answers have the same members. The text
of an error is ours (tests/calculators/llm/openai/test_api_cases.py has the refusals).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.process.answer_checks import fails
from tests.process.http_client import HttpClient
from tests.process.stream_law import read_stream
from tests.servers.cli.process import ROOT

FILE = ROOT.parent / "shared" / "cases" / "api.jsonl"

_IMAGES = "models that see come with a later version"
_GRAMMAR = "structured output comes with a later version: refused by name, never dropped"
_WORDS = "where a text stops is the model's to say: test_streams.py stops at words of the answer"
#: What does not count, by a part of the ids, and why.
EXCEPTIONS = {
    "unaryStructuredOutput": _GRAMMAR,
    "SpaceStopString": _WORDS,
    "MultipleStopStrings": _WORDS,
    "SingleStopString": _WORDS,
    "MessagesWithOnlyRole": "a hostile case of its own: content must be there, if only as null",
    "UnaryWithHeaders": "a mock calculator's answer",
    "chat_unary_keys_legacy": "all answers have the same members, whatever the pipeline",
}

#: Paths that parse the text itself.
_OF_TEXT = ("[?]", "|from", "compare(")


def load() -> list[dict[str, Any]]:
    """The cases of the whole server that end well."""
    if not FILE.is_file():
        return []
    cases = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return [
        case
        for case in cases
        if case["level"] == "http"
        and case["endpoint"].rstrip("/").endswith("completions")
        and case["expect"].get("http_status", 200) == 200
    ]


CASES = load()


def exception(case: dict[str, Any]) -> str | None:
    """Why a case does not count, if it does not."""
    if "image_url" in json.dumps(case["body"]):
        return _IMAGES
    return next((why for part, why in EXCEPTIONS.items() if part in case["id"]), None)


def body_of(case: dict[str, Any]) -> dict[str, Any]:
    body = {**case["body"], "model": "demo"}
    # Another model may end before: the length is asked for instead.
    return {"ignore_eos": True, "max_tokens": 5, **body}


def wanted_of(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The checks that count. How many tokens there are up to a limit is the model's business."""
    return [
        check
        for check in case["expect"].get("response_checks", ())
        if "when" not in check
        and not str(check.get("value")).startswith("<<REFERENCE")
        and not any(part in check["path"] for part in _OF_TEXT)
        and check["path"] not in ("model", "usage.completion_tokens")
    ]


@pytest.mark.skipif(not CASES, reason="the shared cases are not beside the checkout")
@pytest.mark.parametrize(
    "case", [case for case in CASES if not exception(case)], ids=lambda case: case["id"]
)
def test_a_case_is_answered(client: HttpClient, case: dict[str, Any]) -> None:
    reply = client.ask("POST", case["endpoint"], body_of(case))
    assert reply.status == 200, reply.body
    if not case["body"].get("stream"):
        assert [check for check in wanted_of(case) if fails(reply.json, check)] == []
        return
    read_stream(reply.body, usage="stream_options" in case["body"])
    for check in case["expect"].get("event_checks", ()):
        if check["scope"] == "headers":
            assert reply.headers[check["path"]] == check["value"]
        elif check["scope"] == "last_reply":
            assert check["value"] in reply.body.decode()


@pytest.mark.skipif(not CASES, reason="the shared cases are not beside the checkout")
@pytest.mark.parametrize("part", EXCEPTIONS)
def test_an_exception_still_has_its_case(part: str) -> None:
    assert any(part in case["id"] for case in CASES)
