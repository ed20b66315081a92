"""What chat and completion requests have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calculators.http_payload import RequestError
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.openai import fields
from calculators.llm.openai.model_defaults import ModelDefaults


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
    """

    model: str
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    settings: GenerationSettings
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True


def read_body(value: object) -> Mapping[str, Any]:
    """A parsed body, which has to be an object."""
    if not isinstance(value, dict):
        raise RequestError(f"The body must be a JSON object, not {fields.describe(value)}")
    return value


def read_model(body: Mapping[str, Any]) -> str:
    """The name of the model."""
    model = fields.string(body, "model")
    if not model:
        raise fields.missing("model", "the name of the model that is to answer")
    return model


def read_include_stop_string(body: Mapping[str, Any], defaults: ModelDefaults) -> bool:
    """``include_stop_str_in_output``; false unless the request or the model says otherwise."""
    asked = fields.boolean(body, "include_stop_str_in_output")
    return bool(defaults.include_stop_str_in_output if asked is None else asked)


def read_skip_special_tokens(body: Mapping[str, Any]) -> bool:
    """``skip_special_tokens``; true unless the request says otherwise."""
    return fields.boolean(body, "skip_special_tokens") is not False
