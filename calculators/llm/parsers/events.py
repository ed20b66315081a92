"""What a model's output consists of, piece by piece."""

from __future__ import annotations

from typing import NamedTuple


class Content(NamedTuple):
    """More of what the model says to the user. Never empty."""

    text: str


class Reasoning(NamedTuple):
    """More of what it thinks. Never empty."""

    text: str


class ToolCall(NamedTuple):
    """A call of a tool begins; what `Arguments` follow are its.

    Attributes:
        call_id: parsers leave it empty; who writes the answer gives it.
    """

    name: str
    call_id: str = ""


class Arguments(NamedTuple):
    """More of the arguments of the call begun last. Together they are the text of a JSON object.

    Where the model broke off, or wrote what is no JSON, they are as far as it got: no bracket is
    closed that the model left open, so nobody takes half a call for a whole one.
    """

    text: str


OutputEvent = Content | Reasoning | ToolCall | Arguments
