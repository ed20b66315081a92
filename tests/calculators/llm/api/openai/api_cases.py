"""Conformance cases of OpenVINO Model Server's requests, and graphrt's deliberate differences.

Each difference has its reason, by the part of the id that its cases share.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tests.corpora import corpora

CASES: Final = corpora()

_VLM: Final = "that the model reads images, and so answers no completions, is the calculator's"
_LENGTH: Final = "decided once the prompt's tokens are counted"
_STOP: Final = "the stop string stays out of streamed text, so false is nothing to refuse"
_CANCELLED: Final = "a client that has gone is the calculator's business"
_NULL: Final = "null is absent"
_INCLUSIVE: Final = "the limit may be reached"
_N: Final = "n needs no best_of"
_ALL: Final = "top_k 0 is all tokens, as in llama.cpp, Hugging Face and OpenVINO GenAI"
_SEED: Final = "OpenAI's seeds have 64 bits and a sign"
_INTEGER: Final = "1.0 is an integer in JSON Schema, which describes the members"
_EMPTY: Final = "a message with nothing in it is one that clients send"
#: Deliberate differences, by the part of the id that their cases share; "derived:" ids are one case
#: each. These are accepted by OpenVINO Model Server and refused here, or the reverse.
EXCEPTIONS: Final = {
    "unaryCompletionsJson/vlm": _VLM,
    "ParsingResponsesMaxTokensIsIgnored": "a limit that is none is an error",
    "endpoint:/v3/completions:OMNI": _VLM,
    "VlmInjectionGuardRejected": "the guard stands where images are decoded",
    "unaryStructuredOutputBadSchema": "what is not a schema is refused, not dropped silently",
    "ExceedsMaxModelLength": _LENGTH,
    "EqualToMaxModelLength": _LENGTH,
    "IncludeStopStrInOutputFalse": _STOP,
    "include_stop_str_in_output cannot be set to false": _STOP,
    "ClientDisconnectedImmediately": _CANCELLED,
    "MessagesWithOnlyRole": "a hostile case of its own: content must be there, if only as null",
    "ChoiceNotInProvidedList": "a tool that is not there is an error, not an empty list",
    "parseChatTemplateKwargsInvalidArray": "refused at once; there, later in the same request",
    "derived:chat/completions:stream_options.include_usage is not a boolean#2": _NULL,
    "derived:completions:stream_options.include_usage is not a boolean#2": _NULL,
    "derived:http:stream field is not a boolean#4": _NULL,
    "derived:http:stream field is not a boolean#6": _NULL,
    "derived:responses:stream_options is not supported in Responses API.#2": _NULL,
    "derived:responses:best_of exceeds limit provided in graph config: 20": _INCLUSIVE,
    "ParsingResponsesNUnaryIsAccepted": "a response is one answer: a second has no place in it",
    "derived:completions:n value cannot be greater than best_of": _N,
    "derived:chat/completions:n value cannot be greater than best_of#2": _N,
    "derived:chat/completions:max_tokens exceeds limit provided in graph config: 10": _INCLUSIVE,
    "logprobs are not supported in streaming mode": "they can be streamed",
    "derived:completions:prompt is not a string": "several prompts are answered",
    "topKZeroInvalid": _ALL,
    "derived:chat/completions:top_k must be -1 (all tokens) or a positive integer": _ALL,
    "seedOutOfRangeNegative": _SEED,
    "seedOutOfRangeOverflow": _SEED,
    "derived:responses:seed out of range [0, 4294967295]": _SEED,
    "derived:responses:seed out of range [0, 4294967295]#2": _SEED,
    "derived:completions:seed out of range [0, 4294967295]#2": _SEED,
    "ParsingResponsesEmptyContentArrayFails": _EMPTY,
    "derived:responses:input item content array must not be empty": _EMPTY,
    "derived:completions:best_of is not an unsigned integer#3": _INTEGER,
    "derived:responses:best_of is not an unsigned integer#3": _INTEGER,
    "derived:completions:n is not an unsigned integer#3": _INTEGER,
    "derived:responses:n is not an unsigned integer#3": _INTEGER,
    "derived:completions:logprobs accepts integer values#3": _INTEGER,
}


def load(name: str) -> list[dict[str, Any]]:
    """Return the cases of a file."""
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


def load_api_cases() -> list[dict[str, Any]]:
    """Return the cases of requests, with long texts expanded."""
    return [_expanded(case) for case in load("api.jsonl")]


def exception_of(case: dict[str, Any]) -> str | None:
    """Return why a case does not count, or None."""
    name = case["id"]
    for part, reason in EXCEPTIONS.items():
        if name == part or (part in name and not part.startswith("derived:")):
            return reason
    return None


def is_refused(case: dict[str, Any]) -> bool:
    """Return True if OpenVINO Model Server refuses the request."""
    expect = case["expect"]
    for name in ("parse_ok", "ok"):
        if name in expect:
            return not expect[name]
    return int(expect.get("http_status", 200)) >= 400


def _expanded(case: dict[str, Any]) -> dict[str, Any]:
    for each in case.get("body_expand", ()):
        *way, last = each["path"]
        here = case["body"]
        for step in way:
            here = here[step]
        here[last] = each["repeat"] * each["times"]
    return case
