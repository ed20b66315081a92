"""The output parsers by name: graphrt's, and the parsers of installed packages.

A package offers its parsers as entry points in the groups ``graphrt.tool_parsers`` and
``graphrt.reasoning_parsers``, each a subclass of `ToolParser` or `ReasoningParser`. Where two have
one name, graphrt's is taken.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, cast

from calculators.kit.installed_points import installed_points
from calculators.llm.parsers.names import REASONING_PARSERS, TOOL_PARSERS
from calculators.llm.parsers.parser import ReasoningParser, ToolParser
from graphrt_base.errors import did_you_mean, reason_of

#: The value of an option that asks for no parser.
NO_PARSER: Final = "none"


class UnknownParser(ValueError):
    """No parser has the name, or the package that offers it is broken; the text says which."""


class _ParserKind(NamedTuple):
    """A kind of parsers: its base class, graphrt's own by name, and the group of the others."""

    title: str
    base: type[Any]
    own: Mapping[str, str]
    group: str


_TOOL: Final = _ParserKind("tool parser", ToolParser, TOOL_PARSERS, "graphrt.tool_parsers")
_REASONING: Final = _ParserKind(
    "reasoning parser", ReasoningParser, REASONING_PARSERS, "graphrt.reasoning_parsers"
)


def tool_parser(name: str) -> type[ToolParser]:
    """Return the class of a tool parser.

    Raises:
        UnknownParser: with the names that are known, or with the fault of the package.
    """
    return _find(name, _TOOL)


def reasoning_parser(name: str) -> type[ReasoningParser]:
    """Return the class of a reasoning parser.

    Raises:
        UnknownParser: with the names that are known, or with the fault of the package.
    """
    return _find(name, _REASONING)


def tool_parser_names() -> tuple[str, ...]:
    """Return graphrt's names in the order of the documentation, then the names of packages."""
    return _names(_TOOL)


def reasoning_parser_names() -> tuple[str, ...]:
    """Return graphrt's names in the order of the documentation, then the names of packages."""
    return _names(_REASONING)


def parser_problem(name: str, known: Sequence[str]) -> str:
    """Return why a parser's name cannot be the value of an option; "" if it can."""
    if name in ("", NO_PARSER, *known):
        return ""
    names = (*known, NO_PARSER)
    near = did_you_mean(name, names)
    return f'"{name}" is not known.{near} Known are: {", ".join(names)}'


def _names(kind: _ParserKind) -> tuple[str, ...]:
    others = {point.name for point in installed_points(kind.group)}
    return (*kind.own, *sorted(others.difference(kind.own)))


def _find(name: str, kind: _ParserKind) -> type[Any]:
    if name in kind.own:
        module, _, parser = kind.own[name].partition(":")
        found = getattr(import_module(f"calculators.llm.parsers.{module}"), parser)
        return cast("type[Any]", found)
    # Only the parser with this name is loaded, so a broken one does not stop the others.
    for point in installed_points(kind.group).select(name=name):
        source = f'entry point "{point.name}" of the group "{kind.group}" ({point.value})'
        try:
            loaded = point.load()
        except Exception as error:
            raise UnknownParser(f"{source} cannot be loaded: {reason_of(error)}") from error
        return _checked(loaded, kind.base, source)
    known = _names(kind)
    raise UnknownParser(
        f'"{name}" is not a {kind.title}: one of {", ".join(known)}, or {NO_PARSER}.'
        f"{did_you_mean(name, known)}"
    )


def _checked(loaded: Any, wanted: type[Any], source: str) -> type[Any]:
    if not (inspect.isclass(loaded) and issubclass(loaded, wanted)):
        raise UnknownParser(f"{source} is not a class derived from {wanted.__name__}")
    if inspect.isabstract(loaded):
        raise UnknownParser(f"{source} lacks methods of {wanted.__name__}")
    return loaded
