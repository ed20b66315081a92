"""What the requests of all endpoints that generate have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.requests.endpoint import Endpoint
from calculators.llm.requests.members import checked_members
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.sampling import read_sampling
from calculators.llm.requests.streaming_options import read_streaming_options
from calculators.llm.requests.structured_output import StructuredOutput, read_structured_output
from calculators.requests import fields
from calculators.requests.http_payload import RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """A checked request: how to generate, and how to write what is generated.

    Attributes:
        model: as the client named it; goes into the answer.
        stream: answer with events.
        include_usage: the last event says how many tokens there were.
        n: answers per prompt. ``settings.num_return_sequences`` is what the engine makes: where
            that is 1 and ``n`` is more, all ``n`` are the same and the caller copies.
        settings: for the engine.
        include_stop_str_in_output: leave the stop string that ended an answer in its text.
        skip_special_tokens: leave out the text of special tokens.
        structured: what the answer has to be; None is any text.
    """

    model: str
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    settings: GenerationSettings
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    structured: StructuredOutput | None = None


def read_body(value: object, endpoint: Endpoint) -> Mapping[str, Any]:
    """The checked members of a parsed body; none of them is None.

    Raises:
        RequestError: it is no object, or has a member that is unknown, refused or wrong.
    """
    if not isinstance(value, dict):
        raise RequestError(f"The body must be a JSON object, not {fields.describe(value)}")
    return checked_members(value, endpoint)


def read_model(body: Mapping[str, Any]) -> str:
    """The name of the model in a checked body."""
    model: str = body.get("model", "")
    if not model:
        raise fields.missing("model", "the name of the model that is to answer")
    return model


class GenerationMembers(TypedDict):
    """The members of `GenerationRequest`, as keyword arguments of its subclasses."""

    model: str
    stream: bool
    include_usage: bool
    n: int
    settings: GenerationSettings
    include_stop_str_in_output: bool
    skip_special_tokens: bool
    structured: StructuredOutput | None


def read_generation(
    body: Mapping[str, Any], endpoint: Endpoint, defaults: ModelDefaults, limits: RequestLimits
) -> GenerationMembers:
    """Resolve the members of a checked body that all endpoints share.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    model = read_model(body)
    streaming = read_streaming_options(body)
    settings = read_sampling(body, endpoint, defaults, limits)
    return {
        "model": model,
        "stream": streaming.stream,
        "include_usage": streaming.include_usage,
        "n": body.get("n", 1),
        "settings": settings,
        "include_stop_str_in_output": body.get(
            "include_stop_str_in_output", bool(defaults.include_stop_str_in_output)
        ),
        "skip_special_tokens": body.get("skip_special_tokens", True),
        "structured": read_structured_output(body),
    }
