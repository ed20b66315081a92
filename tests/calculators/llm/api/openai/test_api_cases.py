"""Conformance cases and hostile requests of OpenVINO Model Server, as far as parsing decides them.

Where a case shows a defect of OpenVINO Model Server, such as an off-by-one limit, `api_cases` lists
the expectation that counts here.
"""

from __future__ import annotations

import importlib.util
import json
from types import ModuleType
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from calculators.kit.requests.tokenize_request import TokenizeRequest
from calculators.language.generation_request import Tools
from calculators.llm.api.openai.responses_request import ResponsesRequest
from calculators.llm.endpoint import LlmEndpoint
from calculators.llm.endpoints import endpoint_of
from calculators.llm.engine.settings import DecodingMode
from calculators.llm.grammars.form_grammar import FormError, grammar_of
from calculators.llm.model_files import model_length
from calculators.llm.parsers.registry import tool_parser
from calculators.llm.requests.completions_request import ChatRequest
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.structured_output import request_grammar
from calculators.llm.token_requests import TokensRequest
from tests import overruled_cases
from tests.calculators.llm.api.openai.api_cases import (
    CASES,
    EXCEPTIONS,
    exception_of,
    is_refused,
    load,
    load_api_cases,
)
from tests.calculators.llm.api.openai.bodies import settings

API_CASES = load_api_cases()
BAD_INPUTS = load("bad_inputs.jsonl")


def is_parsing(case: dict[str, Any]) -> bool:
    endpoint = case.get("endpoint", "")
    return (
        (case["level"] in ("http", "handler") or case.get("function") == "parse_tokenize_request")
        and endpoint.endswith(("/completions", "/responses", "/tokenize"))
        and isinstance(case.get("body"), dict)
    )


def limits_of(case: dict[str, Any]) -> RequestLimits:
    given = case.get("limits") or {}
    requires = case.get("requires") or {}
    given = {**(requires.get("graph_options") or {}), **given}
    # Cases of the request handler alone know no model; whether the model sees, hears or speaks is
    # checked later there.
    is_any = case["level"] == "handler"
    sees = is_any or "VLM" in str(requires.get("servable"))
    mode: DecodingMode = "standard"
    if "draft_models_path" in given:
        mode = "speculative"
    elif "prompt_lookup" in str(given.get("plugin_config")):
        mode = "prompt_lookup"
    return RequestLimits(
        decoding_mode=mode,
        max_tokens_limit=given.get("max_tokens_limit"),
        best_of_limit=given.get("best_of_limit") or 20,
        max_images=16 if sees else 0,
        max_sounds=16 if is_any else 0,
        voices=None if is_any else (),
    )


def parse_and_form(endpoint: LlmEndpoint, body: object, limits: RequestLimits) -> None:
    """Parse it, and make the grammar of what it asks for, which a process of its own does."""
    request = endpoint.parse(body, limits, ModelDefaults())
    if isinstance(request, (TokenizeRequest, TokensRequest)):
        return
    form = request_grammar(
        request.structured,
        request.tools if isinstance(request, ChatRequest) else Tools(),
        tool_parser=tool_parser("hermes3"),
        reasoning_parser=None,
        guides_tools=False,
        parallel=True,
    )
    if form is not None:
        try:
            grammar_of(form)
        except FormError as error:
            raise RequestError(str(error), param=error.path) from None


@pytest.mark.parametrize(
    "case", [case for case in API_CASES if is_parsing(case)], ids=lambda case: case["id"]
)
def test_requests_are_accepted_or_refused_as_in_the_cases(case: dict[str, Any]) -> None:
    # OpenVINO Model Server drops unknown members of messages; here the default rule does so.
    drops = "MessagesWithMoreMessageFields" in case["id"]
    set_current_record(RequestRecord("") if drops else None)
    try:
        parse_and_form(endpoint_of(case["endpoint"]), case["body"], limits_of(case))
        refused = False
    except RequestError as error:
        refused = True
        unnamed = error.param is None
        assert not unnamed, "every refusal of a body names the member"
    finally:
        set_current_record(None)
    # An exception goes the other way: should it not, it is none any more.
    assert refused is (is_refused(case) is (exception_of(case) is None))


@pytest.mark.parametrize("part", EXCEPTIONS)
def test_an_exception_still_has_its_case(part: str) -> None:
    parsing = [case for case in API_CASES if is_parsing(case)]
    assert any(exception_of(case) == EXCEPTIONS[part] and part in case["id"] for case in parsing)


def expected_messages(case: dict[str, Any]) -> Any:
    """Return the messages for the template, if the case gives all of them."""
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
    endpoint = endpoint_of(case["endpoint"])
    request = endpoint.parse(case["body"], limits_of(case), ModelDefaults())
    assert isinstance(request, ResponsesRequest)
    assert request.messages == expected_messages(case)


@pytest.mark.parametrize(
    "case",
    [case for case in API_CASES if case["level"] == "generation_config"],
    ids=lambda case: case["id"],
)
def test_settings_are_those_of_the_cases(case: dict[str, Any]) -> None:
    names = {"topK": "top_k"}
    # The C++ test writes a double; in a request it has to be an integer.
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
def test_the_model_length_limits_requests(case: dict[str, Any]) -> None:
    assert model_length(case["config_json"]) == case["expect"]["result"]


# Hostile requests that parsing refuses, with the field of the error.

GROUPS = ("messages", "sampling", "tools", "structured", "completions", "image", "template")

_LENGTH = "decided once the prompt's tokens are counted"
_GRAMMAR = "decided when a grammar is made of it"
NOT_DECIDED_BY_PARSING = {
    "msg_over_context": _LENGTH,
    "msg_over_context_stream": _LENGTH,
    "so_schema_ref_self": _GRAMMAR,
    "so_schema_ref_cycle": _GRAMMAR,
    "so_schema_min_gt_max": _GRAMMAR,
    "so_schema_maxlength_1e6": _GRAMMAR,
    "so_schema_deep_5000": "too deep to be parsed: the front refuses it",
    "comp_prompt_oov_id": "decided where the vocabulary is known",
}


def expander() -> ModuleType:
    """Return the runner of the cases, which expands abbreviated long texts."""
    spec = importlib.util.spec_from_file_location("run_bad_inputs", CASES / "run_bad_inputs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "case", [case for case in BAD_INPUTS if case["group"] in GROUPS], ids=lambda case: case["name"]
)
def test_a_hostile_request_is_refused_by_its_field(case: dict[str, Any]) -> None:
    if case["name"] in overruled_cases.BAD_INPUTS:
        pytest.skip(overruled_cases.BAD_INPUTS[case["name"]])
    if case["name"] in NOT_DECIDED_BY_PARSING:
        pytest.skip(NOT_DECIDED_BY_PARSING[case["name"]])
    body = json.loads(expander().enc(case["body"], {"MODEL": "m"}))
    endpoint = endpoint_of(case["path"])
    expect = case["expect"]
    if 200 in expect["status"]:
        try:
            parse_and_form(endpoint, body, RequestLimits())
        except RequestError:
            assert len(expect["status"]) > 1
        return
    with pytest.raises(RequestError) as raised:
        parse_and_form(endpoint, body, RequestLimits())
    assert raised.value.param is not None
    assert raised.value.param.startswith(expect.get("param") or "")
    assert len(str(raised.value)) < 300
