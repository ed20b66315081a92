"""Small request bodies, and short ways to parse them."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.requests.completions_request import (
    ChatRequest,
    CompletionRequest,
    parse_chat_request,
    parse_completion_request,
)
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

LIMITS = RequestLimits()
DEFAULTS = ModelDefaults()


def chat_body(**members: Any) -> dict[str, Any]:
    """Return a valid chat request with ``members`` replaced."""
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **members}


def completion_body(**members: Any) -> dict[str, Any]:
    """Return a valid completion request with ``members`` replaced."""
    return {"model": "m", "prompt": "hi", **members}


def chat(
    limits: RequestLimits = LIMITS, defaults: ModelDefaults = DEFAULTS, **members: Any
) -> ChatRequest:
    """Parse a chat request."""
    return parse_chat_request(chat_body(**members), limits, defaults)


def completion(
    limits: RequestLimits = LIMITS, defaults: ModelDefaults = DEFAULTS, **members: Any
) -> CompletionRequest:
    """Parse a completion request."""
    return parse_completion_request(completion_body(**members), limits, defaults)


def settings(
    limits: RequestLimits = LIMITS, defaults: ModelDefaults = DEFAULTS, **members: Any
) -> GenerationSettings:
    """Return the engine's settings for a chat request."""
    return chat(limits, defaults, **members).settings


def refusal(
    limits: RequestLimits = LIMITS, defaults: ModelDefaults = DEFAULTS, **members: Any
) -> RequestError:
    """Return the error with which a chat request is refused."""
    with pytest.raises(RequestError) as raised:
        chat(limits, defaults, **members)
    return raised.value


def completion_refusal(
    limits: RequestLimits = LIMITS, defaults: ModelDefaults = DEFAULTS, **members: Any
) -> RequestError:
    """Return the error with which a completion request is refused."""
    with pytest.raises(RequestError) as raised:
        completion(limits, defaults, **members)
    return raised.value
