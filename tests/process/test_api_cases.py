"""Conformance cases of OpenVINO Model Server's whole server, answered by the demo model.

Its models are others, so expectations about their words do not count; compared are what is
accepted and refused, and the members of answers. The texts of errors are graphrt's own.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.calculators.llm.api.openai.api_cases import exception_of, is_refused, load_api_cases
from tests.process.answer_checks import fails
from tests.process.http_client import HttpClient, Reply
from tests.process.stream_law import DONE, read_stream

_WORDS: Final = "where a text stops is the model's to say: test_streams.py stops at words of it"
_MOCK: Final = "a mock calculator's answer, not a language model's"
_KEY: Final = "this server has no key: tests/servers/fronts/http has one that has"
_NO_DRAFT: Final = "members for proposed tokens are refused where nothing proposes any"
_UNKNOWN: Final = (
    "an unknown member is left out with a warning: --unknown_fields refuse is as there"
)
#: Cases that do not count here, by a part of the id, beside those of `exception_of`.
EXCEPTIONS: Final = {
    "SpaceStopString": _WORDS,
    "MultipleStopStrings": _WORDS,
    "SingleStopString": _WORDS,
    "HttpOpenAIHandlerTest.Unary": _MOCK,
    "UnaryWithQueue": _MOCK,
    "ApiKey": _KEY,
    "chat_unary_keys_legacy": "all answers have the same members, whatever the pipeline",
    "max_tokens exceeds limit": "this graph sets no limit",
    "unaryCompletionsJsonSpeculativeDecoding": _NO_DRAFT,
    "promptLookupDecodingMissingParameter": _NO_DRAFT,
    "StreamOptionsBadContent": _UNKNOWN,
    "Found unexpected stream options": _UNKNOWN,
}
#: Cases that are decided by more than the parser, so they count here.
_COUNTED: Final = ("ExceedsMaxModelLength", "EqualToMaxModelLength")

#: Paths that parse the text itself as something other than JSON.
_OF_TEXT: Final = ("[?]", "|from", "compare(")
#: Members that depend on the model and the server, which says more of a model: task and length.
_OF_MODEL: Final = ("model", "usage.completion_tokens", "data[0].owned_by", "data[0]@keys")
_PICTURES: Final = ("image_url", "input_image")
#: Members that may be wrong: of the body, or path and model.
_REFUSALS: Final = {
    400: {"invalid_request_error"},
    404: {"invalid_request_error", "not_found_error"},
}

CASES: Final = [case for case in load_api_cases() if case["level"] == "http"]


def why_not(case: dict[str, Any]) -> str | None:
    """Return why a case does not count, or None."""
    for part, why in EXCEPTIONS.items():
        if part in case["id"]:
            return why
    return None if any(part in case["id"] for part in _COUNTED) else exception_of(case)


def cases(*, refused: bool) -> list[Any]:
    return [
        pytest.param(case, id=case["id"])
        for case in CASES
        if is_refused(case) is refused and not why_not(case)
    ]


def body_of(case: dict[str, Any]) -> object:
    if "body_raw" in case:
        return case["body_raw"]
    body = case["body"]
    # Some cases are about a missing model.
    return {**body, "model": "demo"} if isinstance(body.get("model"), str) else body


def answerable(case: dict[str, Any]) -> Any:
    """Return the body for a text model that may end before another one does."""
    body = body_of(case)
    if not isinstance(body, dict) or "text" in body:
        return body
    limit = "max_output_tokens" if "input" in body else "max_tokens"
    asked: dict[str, Any] = {limit: 5, **_without_pictures(body)}
    if "response_format" not in body:
        # The length is requested, since the model decides where to end.
        asked.setdefault("ignore_eos", True)
    return asked


def _without_pictures(value: Any) -> Any:
    """Replace each picture by a word."""
    if isinstance(value, dict):
        if value.get("type") in _PICTURES:
            kind = "text" if value["type"] == "image_url" else "input_text"
            return {"type": kind, "text": "(a picture)"}
        return {name: _without_pictures(member) for name, member in value.items()}
    return [_without_pictures(each) for each in value] if isinstance(value, list) else value


def wanted_of(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the checks that count. The number of tokens up to a limit depends on the model."""
    return [
        check
        for check in case["expect"].get("response_checks", ())
        if "when" not in check
        and not str(check.get("value")).startswith("<<REFERENCE")
        and not any(part in check["path"] for part in _OF_TEXT)
        and check["path"] not in _OF_MODEL
        and check["op"] != "elementwise_eq"  # the ids of another tokenizer
    ]


def unfolded(answer: Any) -> Any:
    """Return an answer whose JSON texts are parsed, for the checks of structured output."""
    if isinstance(answer, dict):
        return {name: unfolded(member) for name, member in answer.items()}
    if isinstance(answer, list):
        return [unfolded(each) for each in answer]
    try:
        return json.loads(answer) if isinstance(answer, str) and answer[:1] == "{" else answer
    except ValueError:
        return answer


@pytest.mark.parametrize("case", cases(refused=False))
def test_a_case_is_answered(client: HttpClient, case: dict[str, Any]) -> None:
    body = answerable(case)
    reply = client.ask(case["method"], case["endpoint"], body)
    assert reply.status == 200, reply.body
    if isinstance(body, dict) and body.get("stream"):
        check_stream(case, reply)
        return
    answer = reply.json
    texts = unfolded(answer)
    assert [
        check for check in wanted_of(case) if fails(answer, check) and fails(texts, check)
    ] == []


def check_stream(case: dict[str, Any], reply: Reply) -> None:
    if case["endpoint"].endswith("/responses"):
        check_events(case, reply)
    else:
        read_stream(reply.body, usage="stream_options" in case["body"])
    for check in case["expect"].get("event_checks", ()):
        if check["scope"] == "headers":
            assert reply.headers[check["path"]] == check["value"]
        elif check["scope"] == "last_reply":
            assert check["value"] in reply.body.decode()


def check_events(case: dict[str, Any], reply: Reply) -> None:
    """Check the types of the events of a response, and their numbers."""
    blocks = reply.body.decode().removesuffix("\n\n").split("\n\n")
    *events, last = [block.split("data: ", 1)[1] for block in blocks]
    assert last == DONE
    told = [json.loads(event) for event in events]
    types = [event["type"] for event in told]
    for check in case["expect"]["event_checks"]:
        if check["path"] == "type":
            assert types[int(check["scope"][len("event[") : -1])] == check["value"]
        elif check["path"] == "types":
            assert types[-len(check["value"]) :] == check["value"]
    assert [event["sequence_number"] for event in told] == list(range(len(told)))


@pytest.mark.parametrize("case", cases(refused=True))
def test_a_case_is_refused(client: HttpClient, case: dict[str, Any]) -> None:
    reply = client.ask(case["method"], case["endpoint"], body_of(case))
    assert reply.status in _REFUSALS, reply.body
    assert reply.error["type"] in _REFUSALS[reply.status]
    assert reply.error["message"]


@pytest.mark.parametrize("part", EXCEPTIONS)
def test_an_exception_still_has_its_case(part: str) -> None:
    assert any(part in case["id"] for case in CASES)
