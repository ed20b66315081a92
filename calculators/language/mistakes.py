"""Mistakes of authors in packets of language models, found where they are made.

A wrong value in a packet would fail in a later node, or in the process of a model, whose error
would blame the client. So packets are checked when they are made: the error is raised at the line
of the author's code, and its text has the call that was meant. It is the node's own, a 500.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

#: Levels of nesting in a message that an author makes.
_DEEPEST: Final = 64


class AuthorMistake(TypeError):
    """An author's code made a packet that cannot be one. The text has the call that was meant."""


def named(value: object) -> str:
    """Return a value's type for people: "None", "a list", "an int"."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def place_of(function: Callable[..., Any]) -> str:
    """Return ``NAME (FILE:LINE)`` of an author's function, for the log."""
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    name = getattr(inner, "__qualname__", type(inner).__name__)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def check_message(message: object, place: str) -> None:
    """Check a message that an author makes: a dictionary for chat templates, of JSON's values.

    Raises:
        AuthorMistake: it is none.
    """
    problem = message_problem(message)
    if not problem and isinstance(message, dict):
        problem = json_problem(message)
    if problem:
        raise AuthorMistake(
            f"{place} {problem}: messages are given one by one, "
            'request.with_messages({"role": "user", "content": "Hello"}, *request.messages)'
        )


def message_problem(message: object) -> str:
    """Return what is wrong with a message at first sight; "" if nothing is."""
    if not isinstance(message, dict):
        return f"is {named(message)}, no message"
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        return f'has {named(role)} as its "role", which is a text such as "user"'
    if content is None or isinstance(content, str):
        return ""
    if not isinstance(content, list):
        return f'has {named(content)} as its "content", which is a text or a list of parts'
    for part in content:
        if not isinstance(part, dict):
            return f'has {named(part)} among the parts of its "content", which are dictionaries'
    return ""


def json_problem(value: object, depth: int = 0) -> str:
    """Return what in a value JSON has no form for; "" if it has one for all."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return "has a text that is not Unicode (half of a surrogate pair)"
        return ""
    if value is None or isinstance(value, bool | int):
        return ""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"has {value}, which is not a number of JSON"
    if depth >= _DEEPEST:
        return f"has values nested more than {_DEEPEST} levels deep"
    if isinstance(value, Mapping):
        for name, each in value.items():
            if not isinstance(name, str):
                return f"has {named(name)} as a name"
            if problem := json_problem(each, depth + 1):
                return problem
        return ""
    if isinstance(value, list | tuple):
        return next((found for each in value if (found := json_problem(each, depth + 1))), "")
    return f"has {named(value)} in it, which JSON has no form for"
