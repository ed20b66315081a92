"""The events that parsers make of a model's output."""

from __future__ import annotations

from typing import NamedTuple


class Content(NamedTuple):
    """More text for the user. Never empty."""

    text: str


class Reasoning(NamedTuple):
    """More reasoning. Never empty."""

    text: str


class ToolCall(NamedTuple):
    """The beginning of a call of a tool. The `Arguments` that follow belong to it.

    Attributes:
        call_id: parsers leave it empty; `ChoiceOutput` sets it.
    """

    name: str
    call_id: str = ""


class Arguments(NamedTuple):
    """More of the arguments of the last call. Together they are the text of a JSON object.

    If the model stopped early or wrote invalid JSON, the text ends there. Brackets that the model
    left open stay open, so that half a call is not mistaken for a whole one.
    """

    text: str


OutputEvent = Content | Reasoning | ToolCall | Arguments
