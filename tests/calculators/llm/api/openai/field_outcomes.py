"""What can become of a member of a request, for tables of all members there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Effect:
    """It is honoured: ``shows`` of the parsed request is ``expected``, and is not without it.

    ``beside``: further members of the request, with it and without.
    """

    value: Any
    shows: Callable[[Any], object]
    expected: object
    beside: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """It is refused; ``param`` is where, the member itself unless told."""

    value: Any
    param: str = ""
    beside: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NoEffect:
    """It is ignored, as it does not change what is answered."""

    value: Any
    beside: Mapping[str, Any] = field(default_factory=dict)


Outcome = Effect | Refusal | NoEffect
Table = Mapping[str, tuple[Outcome, ...]]


def setting(name: str) -> Callable[[Any], object]:
    """A setting of the engine."""
    return lambda request: getattr(request.settings, name)


def template(name: str) -> Callable[[Any], object]:
    """An argument of the chat template."""
    return lambda request: request.template.all_values.get(name)


def form(request: Any) -> object:
    """What the answer has to be."""
    return None if request.structured is None else request.structured.format["type"]
