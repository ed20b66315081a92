"""Members that ask for the log-probabilities of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.llm.requests.endpoint import Endpoint
from calculators.llm.requests.request_limits import RequestLimits
from calculators.requests import fields
from calculators.requests.members import Members, honoured, table
from calculators.requests.readers import BOOLEAN, Integer

#: What asks for log-probabilities in ``include`` of a responses request.
_INCLUDED_LOGPROBS: Final = "message.output_text.logprobs"

CHAT_LOGPROBS_MEMBERS: Final[Members] = table(
    honoured("logprobs", BOOLEAN, "Each token comes with its log-probability."),
    honoured("top_logprobs", Integer(maximum=20), "Only the chosen token's is known.", maximum=0),
)
COMPLETION_LOGPROBS_MEMBERS: Final[Members] = table(
    honoured(
        "logprobs",
        Integer(maximum=1),
        "0: with the log-probability of each token; 1 repeats it under `top_logprobs`.",
    ),
)
_LOGPROBS_NAMES: Final = frozenset({"logprobs", "top_logprobs", "include"})


def read_logprobs(body: Mapping[str, Any], endpoint: Endpoint, limits: RequestLimits) -> bool:
    """Does a checked body ask for log-probabilities?

    Raises:
        RequestError: it does, and they are not known, or only those of the chosen tokens.
    """
    if _LOGPROBS_NAMES.isdisjoint(body):
        return False
    wanted = _asks_for_logprobs(body, endpoint)
    if wanted and not limits.has_logprobs:
        raise fields.invalid(
            "logprobs" if body.get("logprobs") is not None else "include",
            "this model is served one request at a time (pipeline_type LM or VLM), where "
            "log-probabilities are not known; leave it out",
        )
    return wanted


def _asks_for_logprobs(body: Mapping[str, Any], endpoint: Endpoint) -> bool:
    match endpoint:
        case Endpoint.CHAT_COMPLETIONS:
            return read_chat_logprobs(body)
        case Endpoint.COMPLETIONS:
            return read_completion_logprobs(body) is not None
        case Endpoint.RESPONSES:
            return read_responses_logprobs(body)
        case _:
            return False


def read_chat_logprobs(body: Mapping[str, Any]) -> bool:
    """``logprobs`` of a chat request. The engine reports the chosen token's and no others."""
    wanted: bool = body.get("logprobs", False)
    top = body.get("top_logprobs")
    if top and not wanted:
        raise fields.invalid("top_logprobs", f"{top} needs logprobs to be true")
    if top:
        raise fields.invalid(
            "top_logprobs", f"{top} is not supported: only the chosen token's is known; use 0"
        )
    return wanted


def read_responses_logprobs(body: Mapping[str, Any]) -> bool:
    """Does ``include``, or ``logprobs`` as in a chat request, ask for log-probabilities?"""
    included = body.get("include", ())
    for i, name in enumerate(included):
        if not isinstance(name, str):
            raise fields.wrong_type(f"include[{i}]", "a string", name)
    if _INCLUDED_LOGPROBS in included:
        body = {**body, "logprobs": True}
    return read_chat_logprobs(body)


def read_completion_logprobs(body: Mapping[str, Any]) -> int | None:
    """``logprobs`` of a completion request: None, 0 or 1; 1 repeats the chosen token as the top."""
    return body.get("logprobs")
