"""The events of a language model's output: text, reasoning, calls of tools, sound, a refusal.

Parsers make `OutputEvent` of a model's text; an answer adds the ends of calls, sound and refusals
(`Event`).
"""

from __future__ import annotations

import json
import secrets
import string
from typing import Final, TypeAlias

from msgspec import Struct


def is_object(text: str) -> bool:
    """Return True if a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


_CHARACTERS: Final = string.ascii_letters + string.digits
#: Mistral's templates take ids of exactly this length, and all others take any.
_LENGTH: Final = 9


def new_call_id() -> str:
    """Return nine random letters and digits."""
    return "".join(secrets.choice(_CHARACTERS) for _ in range(_LENGTH))


class Content(Struct, frozen=True):
    """The next piece of text for the user. Never empty."""

    text: str


class Reasoning(Struct, frozen=True):
    """The next piece of reasoning. Never empty."""

    text: str


class ToolCall(Struct, frozen=True):
    """The beginning of a call of a tool. The `Arguments` that follow belong to it.

    Attributes:
        call_id: never empty in `Deltas`; parsers leave it empty.
    """

    name: str
    call_id: str = ""


class Arguments(Struct, frozen=True):
    """A piece of the arguments of the last call. All pieces are the text of a JSON object.

    If the model stopped early or wrote invalid JSON, the text ends there. Brackets that the model
    left open stay open, so that half a call is not mistaken for a whole one.
    """

    text: str


class CallDone(Struct, frozen=True):
    """The end of the last call. Answers do not show it.

    It comes before the next `ToolCall`, before `Content` or `Reasoning` that is not only white
    space, and at the latest before the end of the choice.

    Attributes:
        arguments: the text of all `Arguments` of the call.
        is_complete: they are a JSON object.
    """

    arguments: str
    is_complete: bool


class SpeechSamples(Struct, frozen=True):
    """The next piece of the text as sound. It may come long after its text.

    A node that changes text drops it.

    Attributes:
        pcm: samples of one channel at 24 kHz, signed 16-bit integers, little-endian. Never empty.
    """

    pcm: bytes


class Refused(Struct, frozen=True):
    """A refusal, in place of an answer or of the rest of one. At most one per choice, and its last.

    Attributes:
        text: the explanation for the user; may be empty.
        category: a word for programs, such as "violence"; None without one.
    """

    text: str
    category: str | None = None


#: The events that parsers make of a model's text.
OutputEvent: TypeAlias = Content | Reasoning | ToolCall | Arguments
#: The events of a choice.
Event: TypeAlias = OutputEvent | CallDone | SpeechSamples | Refused


def merged(events: list[OutputEvent]) -> list[OutputEvent]:
    """Merge adjacent events of one kind. Takes time in proportion to their text."""
    if len(events) < 2:
        return events
    joined: list[OutputEvent] = []
    run: list[str] = []
    last: Content | Reasoning | Arguments | None = None
    for event in events:
        if last is not None and type(event) is not type(last):
            joined.append(last if len(run) == 1 else type(last)("".join(run)))
            last, run = None, []
        if isinstance(event, ToolCall):
            joined.append(event)
        else:
            last = event
            run.append(event.text)
    if last is not None:
        joined.append(last if len(run) == 1 else type(last)("".join(run)))
    return joined
