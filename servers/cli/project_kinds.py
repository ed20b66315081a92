"""The kinds of projects that `graphrt init` makes. Imports nothing slow: `--help` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class ProjectKind(NamedTuple):
    """One kind of project; its files are in ``examples/projects/NAME``.

    Attributes:
        summary: what the project serves.
        models: example models that are copied into its folder ``models``.
    """

    summary: str
    models: tuple[str, ...] = ()


KINDS: Final[Mapping[str, ProjectKind]] = MappingProxyType(
    {
        "calculator": ProjectKind("a calculator on arrays, behind KServe"),
        "chat_endpoint": ProjectKind("a chat endpoint whose answers are written in Python"),
        "guard": ProjectKind("a language model behind a guard of its requests", ("demo",)),
        "retrieval": ProjectKind("a search in passages of text, by vectors"),
        "vision": ProjectKind("an object detector with a calculator behind it", ("shapes",)),
    }
)


def kinds_text() -> str:
    """Return the kinds as lines of a help text."""
    width = max(map(len, KINDS))
    return "\n".join(f"  {name:{width}}  {kind.summary}" for name, kind in KINDS.items())
