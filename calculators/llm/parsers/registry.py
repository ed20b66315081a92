"""The output parsers by name: our own, and those of installed packages.

A package offers its parsers as entry points in the groups `TOOL_PARSERS` and `REASONING_PARSERS`,
each a subclass of `ToolParser` or `ReasoningParser`. Names of our own come first.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from calculators.llm.parsers import names
from calculators.llm.parsers.parser import ReasoningParser, ToolParser
from graph_runtime.errors import did_you_mean, reason_of

TOOL_PARSERS: Final = "graphrt.tool_parsers"
REASONING_PARSERS: Final = "graphrt.reasoning_parsers"

_PACKAGE: Final = "calculators.llm.parsers"
#: Modules, whose ``PARSER`` is the class, by the name of the parser.
_TOOL: Final[Mapping[str, str]] = {name: f"{_PACKAGE}.tool.{name}" for name in names.TOOL_PARSERS}
_REASONING: Final[Mapping[str, str]] = {
    name: f"{_PACKAGE}.reasoning.{name}" for name in names.REASONING_PARSERS
}


class UnknownParser(ValueError):
    """There is no such parser, or the package that offers it is broken; the text says which."""


def tool_parser(name: str) -> type[ToolParser]:
    """The class of a tool parser.

    Raises:
        UnknownParser: with the names there are, or with what is wrong in the package.
    """
    return _find(name, "tool parser", _TOOL, TOOL_PARSERS, ToolParser)


def reasoning_parser(name: str) -> type[ReasoningParser]:
    """The class of a reasoning parser.

    Raises:
        UnknownParser: with the names there are, or with what is wrong in the package.
    """
    return _find(name, "reasoning parser", _REASONING, REASONING_PARSERS, ReasoningParser)


def tool_parser_names() -> tuple[str, ...]:
    """Our own in the order of the documentation, then those of packages."""
    return _names(_TOOL, TOOL_PARSERS)


def reasoning_parser_names() -> tuple[str, ...]:
    """Our own in the order of the documentation, then those of packages."""
    return _names(_REASONING, REASONING_PARSERS)


def _names(own: Mapping[str, str], group: str) -> tuple[str, ...]:
    others = {point.name for point in entry_points(group=group)}
    return (*own, *sorted(others - own.keys()))


def _find(name: str, what: str, own: Mapping[str, str], group: str, wanted: type[Any]) -> type[Any]:
    if name in own:
        return _checked(import_module(own[name]).PARSER, wanted, own[name])
    # Only the one that is asked for is loaded, so a broken one is in nobody else's way.
    for point in entry_points(group=group, name=name):
        source = f'entry point "{point.name}" of the group "{group}" ({point.value})'
        try:
            loaded = point.load()
        except Exception as error:
            raise UnknownParser(f"{source} cannot be loaded: {reason_of(error)}") from error
        return _checked(loaded, wanted, source)
    known = _names(own, group)
    raise UnknownParser(
        f'"{name}" is no {what}: one of {", ".join(known)}, or none.{did_you_mean(name, known)}'
    )


def _checked(loaded: Any, wanted: type[Any], source: str) -> type[Any]:
    if not (inspect.isclass(loaded) and issubclass(loaded, wanted)):
        raise UnknownParser(f"{source} is no class derived from {wanted.__name__}")
    if inspect.isabstract(loaded):
        raise UnknownParser(f"{source} lacks methods of {wanted.__name__}")
    return loaded
