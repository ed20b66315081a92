"""Possible outcomes of a member of a request, for tables of all members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Effect:
    """The member is honoured: ``shows`` of the parsed request is ``expected`` only with it.

    ``beside``: further members of both requests.
    """

    value: Any
    shows: Callable[[Any], object]
    expected: object
    beside: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """The member is refused; ``param`` is the place, by default the member itself."""

    value: Any
    param: str = ""
    beside: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NoEffect:
    """The member is ignored, because it does not change the answer."""

    value: Any
    beside: Mapping[str, Any] = field(default_factory=dict)


Outcome = Effect | Refusal | NoEffect
Table = Mapping[str, tuple[Outcome, ...]]


def setting(name: str) -> Callable[[Any], object]:
    """Read a setting of the engine."""
    return lambda request: getattr(request.settings, name)


def template(name: str) -> Callable[[Any], object]:
    """Read an argument of the chat template."""
    return lambda request: request.template.all_values.get(name)


def form(request: Any) -> object:
    """Read the required form of the answer."""
    return None if request.structured is None else request.structured.format["type"]
