"""OpenVINO Model Server's cases and hostile requests, as far as parsing decides them.

Both files lie beside the checkout. Where a case shows a defect of OpenVINO Model Server, an
off-by-one limit say, it is listed below with what counts here.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from calculators.http_payload import RequestError
from calculators.llm.openai.chat_request import ChatRequest, parse_chat_request
from calculators.llm.openai.completion_request import CompletionRequest, parse_completion_request
from calculators.llm.openai.endpoint import Endpoint, endpoint_of
from calculators.llm.openai.model_defaults import ModelDefaults
from calculators.llm.openai.model_length import model_length
from calculators.llm.openai.request_limits import RequestLimits
from calculators.llm.openai.responses_request import ResponsesRequest, parse_responses_request
from calculators.llm.openai.tokenize_request import TokenizeRequest, parse_tokenize_request
from tests.calculators.llm.openai.bodies import settings

CASES = Path(__file__).parents[5] / "shared" / "cases"


def load(name: str) -> list[dict[str, Any]]:
    path = CASES / name
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


API_CASES = load("api.jsonl")
BAD_INPUTS = load("bad_inputs.jsonl")

# What OpenVINO Model Server does differently, by the part of the id that its cases share; those
# that are named "derived:" are one case each.
_VLM = "that the model reads images, and so answers no completions, is the calculator's to say"
_GRAMMAR = "structured output is not built yet: refused by name, never dropped"
_LENGTH = "decided once the prompt's tokens are counted"
_STOP = "the stop string stays out of streamed text, so false is nothing to refuse"
_CANCELLED = "a client that has gone is the calculator's business"
_NULL = "null is absent"
_INCLUSIVE = "the limit may be reached"
_N = "n needs no best_of"
_MODEL_SIDE = "a model that answers with audio, or hears, is not built yet"
EXCEPTIONS = {
    "unaryCompletionsJson/vlm": _VLM,
    "endpoint:/v3/completions:OMNI": _VLM,
    "VlmInjectionGuardRejected": "the guard stands where images are decoded",
    "unaryStructuredOutput": _GRAMMAR,
    "responseFormatValid": _GRAMMAR,
    "ExceedsMaxModelLength": _LENGTH,
    "EqualToMaxModelLength": _LENGTH,
    "IncludeStopStrInOutputFalse": _STOP,
    "include_stop_str_in_output cannot be set to false": _STOP,
    "ClientDisconnectedImmediately": _CANCELLED,
    "MessagesWithOnlyRole": "a hostile case of its own: content must be there, if only as null",
    "ChoiceNotInProvidedList": "a tool that is not there is an error, not an empty list",
    "parseChatTemplateKwargsInvalidArray": "refused at once; there, later in the same request",
    "ParsingAudioVoiceAndFormatWav": _MODEL_SIDE,
    "ParsingInputAudioContentPartInChatCompletions": _MODEL_SIDE,
    "derived:chat/completions:stream_options.include_usage is not a boolean#2": _NULL,
    "derived:completions:stream_options.include_usage is not a boolean#2": _NULL,
    "derived:http:stream field is not a boolean#4": _NULL,
    "derived:http:stream field is not a boolean#6": _NULL,
    "derived:responses:stream_options is not supported in Responses API.#2": _NULL,
    "derived:responses:best_of exceeds limit provided in graph config: 20": _INCLUSIVE,
    "ParsingResponsesNUnaryIsAccepted": "a response is one answer: a second has no place in it",
    "ParsingModalitiesWorksForResponsesEndpoint": _MODEL_SIDE,
    "derived:completions:n value cannot be greater than best_of": _N,
    "derived:chat/completions:n value cannot be greater than best_of#2": _N,
    "derived:chat/completions:max_tokens exceeds limit provided in graph config: 10": _INCLUSIVE,
    "logprobs are not supported in streaming mode": "they can be streamed",
    "derived:completions:prompt is not a string": "several prompts are answered",
}


def is_parsing(case: dict[str, Any]) -> bool:
    endpoint = case.get("endpoint", "")
    return (
        (case["level"] in ("http", "handler") or case.get("function") == "parse_tokenize_request")
        and endpoint.endswith(("/completions", "/responses", "/tokenize"))
        and isinstance(case.get("body"), dict)
    )


def parse(
    endpoint: Endpoint, body: object, limits: RequestLimits
) -> ChatRequest | CompletionRequest | ResponsesRequest | TokenizeRequest:
    match endpoint:
        case Endpoint.CHAT_COMPLETIONS:
            return parse_chat_request(body, limits, ModelDefaults())
        case Endpoint.RESPONSES:
            return parse_responses_request(body, limits, ModelDefaults())
        case Endpoint.TOKENIZE:
            return parse_tokenize_request(body, limits)
        case _:
            return parse_completion_request(body, limits, ModelDefaults())


def limits_of(case: dict[str, Any]) -> RequestLimits:
    given = case.get("limits") or {}
    requires = case.get("requires") or {}
    given = {**(requires.get("graph_options") or {}), **given}
    # The cases of the request handler alone know no model; whether it sees is asked later there.
    sees = case["level"] == "handler" or "VLM" in str(requires.get("servable"))
    return RequestLimits(
        max_tokens_limit=given.get("max_tokens_limit"),
        best_of_limit=given.get("best_of_limit") or 20,
        max_images=16 if sees else 0,
    )


def expected_refusal(case: dict[str, Any]) -> bool:
    expect = case["expect"]
    for name in ("parse_ok", "ok"):
        if name in expect:
            return not expect[name]
    return int(expect.get("http_status", 200)) >= 400


def exception(case: dict[str, Any]) -> str | None:
    """Why a case does not count, if it does not."""
    name = case["id"]
    for part, reason in EXCEPTIONS.items():
        if name == part or (part in name and not part.startswith("derived:")):
            return reason
    return None


@pytest.mark.skipif(not API_CASES, reason="the shared cases are not beside the checkout")
@pytest.mark.parametrize(
    "case", [case for case in API_CASES if is_parsing(case)], ids=lambda case: case["id"]
)
def test_what_is_accepted(case: dict[str, Any]) -> None:
    try:
        parse(endpoint_of(case["endpoint"]), case["body"], limits_of(case))
        refused = False
    except RequestError as error:
        refused = True
        unnamed = error.param is None
        assert not unnamed, "every refusal of a body names the member"
    # An exception goes the other way: should it not, it is none any more.
    assert refused is (expected_refusal(case) is (exception(case) is None))


@pytest.mark.skipif(not API_CASES, reason="the shared cases are not beside the checkout")
@pytest.mark.parametrize("part", EXCEPTIONS)
def test_an_exception_still_has_its_case(part: str) -> None:
    parsing = [case for case in API_CASES if is_parsing(case)]
    assert any(exception(case) == EXCEPTIONS[part] and part in case["id"] for case in parsing)


def expected_messages(case: dict[str, Any]) -> Any:
    """The messages for the template, where a case tells them all."""
    checks = case["expect"].get("state_checks") or []
    return next(
        (check["value"] for check in checks if (check["path"], check["op"]) == MESSAGES), None
    )


MESSAGES = ("messages", "json_eq")


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in API_CASES
        if case.get("endpoint") == "/v3/responses" and expected_messages(case) is not None
    ],
    ids=lambda case: case["id"],
)
def test_input_items_become_messages(case: dict[str, Any]) -> None:
    request = parse(endpoint_of(case["endpoint"]), case["body"], limits_of(case))
    assert isinstance(request, ResponsesRequest)
    assert request.messages == expected_messages(case)


@pytest.mark.parametrize(
    "case",
    [case for case in API_CASES if case["level"] == "generation_config"],
    ids=lambda case: case["id"],
)
def test_generation_config(case: dict[str, Any]) -> None:
    names = {"topK": "top_k"}
    # Written by the C++ test as a double; a request's has to be an integer.
    convert = {"top_k": int}
    members: dict[str, Any] = {
        names.get(name, name): convert.get(names.get(name, name), lambda value: value)(value)
        for name, value in case["request_fields"].items()
    }
    made = settings(**members)
    for check in case["expect"]["checks"]:
        value = getattr(made, check["path"])
        # The engine's own default is the largest number there is; here it is None.
        assert (2**64 - 1 if value is None else value) == check["value"]


@pytest.mark.parametrize(
    "case",
    [case for case in API_CASES if case.get("function") == "max_model_length_from_config_json"],
    ids=lambda case: case["id"],
)
def test_model_length(case: dict[str, Any]) -> None:
    assert model_length(case["config_json"]) == case["expect"]["result"]


# Hostile requests: those that parsing refuses, with the field that they are refused for.

GROUPS = ("messages", "sampling", "tools", "structured", "completions", "image", "template")

NOT_DECIDED_BY_PARSING = {
    "msg_over_context": _LENGTH,
    "msg_over_context_stream": _LENGTH,
    "so_schema_deep_5000": "too deep to be parsed: the front refuses it",
    "comp_prompt_oov_id": "decided where the vocabulary is known",
}


def expander() -> ModuleType:
    """The runner of the cases: it knows how the long ones are abbreviated."""
    spec = importlib.util.spec_from_file_location("run_bad_inputs", CASES / "run_bad_inputs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "case", [case for case in BAD_INPUTS if case["group"] in GROUPS], ids=lambda case: case["name"]
)
def test_hostile_request(case: dict[str, Any]) -> None:
    if case["name"] in NOT_DECIDED_BY_PARSING:
        pytest.skip(NOT_DECIDED_BY_PARSING[case["name"]])
    body = json.loads(expander().enc(case["body"], {"MODEL": "m"}))
    endpoint = endpoint_of(case["path"])
    expect = case["expect"]
    if 200 in expect["status"]:
        try:
            parse(endpoint, body, RequestLimits())
        except RequestError:
            assert len(expect["status"]) > 1
        return
    with pytest.raises(RequestError) as raised:
        parse(endpoint, body, RequestLimits())
    assert raised.value.param is not None
    assert raised.value.param.startswith(expect.get("param") or "")
    assert len(str(raised.value)) < 300
