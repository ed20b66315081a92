"""The forms of calls and reasoning by name: declarations, two readers of channels, and packages'.

A package offers its own as entry points in the groups ``graphrt.tool_parsers`` and
``graphrt.reasoning_parsers``, each an `AnswerFamily` or a subclass of `ToolParser` or
`ReasoningParser`. Where two have one name, graphrt's is taken.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, cast

from calculators.kit.installed_points import installed_points
from calculators.llm.parsers.families import FAMILIES, AnswerFamily
from calculators.llm.parsers.parser import ReasoningParser, ToolParser
from graphrt_base.errors import did_you_mean, reason_of

#: The value of an option that asks for no parser.
NO_PARSER: Final = "none"
#: The name of a declaration that was made of what a model's template renders.
MADE: Final = "made"


class UnknownParser(ValueError):
    """No parser has the name, or the package that offers it is broken; the text says which."""


ToolForm: TypeAlias = "AnswerFamily | type[ToolParser]"
ReasoningForm: TypeAlias = "AnswerFamily | type[ReasoningParser]"


class _ParserKind(NamedTuple):
    """A kind of parsers: its base class, graphrt's own classes by name, the group of the others.

    ``member`` is the part of a declaration that it reads.
    """

    title: str
    base: type[Any]
    own: Mapping[str, str]
    group: str
    member: str


# Messages with recipients are no frame around calls, so two families have readers of their own.
_MESSAGES: Final = MappingProxyType({"gptoss": "harmony:GptOssParser", "onyx": "onyx:OnyxParser"})
_TOOL: Final = _ParserKind(
    "tool parser",
    ToolParser,
    _MESSAGES,
    "graphrt.tool_parsers",
    "calls",
)
_REASONING: Final = _ParserKind(
    "reasoning parser",
    ReasoningParser,
    _MESSAGES,
    "graphrt.reasoning_parsers",
    "reasoning",
)


def tool_parser(name: str) -> ToolForm:
    """Return how a family writes calls of tools.

    Raises:
        UnknownParser: with the names that are known, or with the fault of the package.
    """
    return cast(ToolForm, _find(name, _TOOL))


def reasoning_parser(name: str) -> ReasoningForm:
    """Return how a family writes reasoning.

    Raises:
        UnknownParser: with the names that are known, or with the fault of the package.
    """
    return cast(ReasoningForm, _find(name, _REASONING))


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


def _declared(kind: _ParserKind) -> dict[str, AnswerFamily]:
    """Return the declarations of a kind by their names, then by their aliases."""
    families = [each for each in FAMILIES.values() if getattr(each, kind.member) is not None]
    by_alias = {alias: each for each in families for alias in each.aliases}
    return {**{each.name: each for each in families}, **by_alias}


def _names(kind: _ParserKind) -> tuple[str, ...]:
    own = (*_declared(kind), *kind.own)
    others = {point.name for point in installed_points(kind.group)}
    return (*own, *sorted(others.difference(own)))


def _find(name: str, kind: _ParserKind) -> Any:
    declared = _declared(kind).get(name)
    if declared is not None:
        return declared
    if name in kind.own:
        module, _, parser = kind.own[name].partition(":")
        return getattr(import_module(f"calculators.llm.parsers.{module}"), parser)
    # Only the parser with this name is loaded, so a broken one does not stop the others.
    for point in installed_points(kind.group).select(name=name):
        source = f'entry point "{point.name}" of the group "{kind.group}" ({point.value})'
        try:
            loaded = point.load()
        except Exception as error:
            raise UnknownParser(f"{source} cannot be loaded: {reason_of(error)}") from error
        return _checked(loaded, kind, source)
    known = _names(kind)
    raise UnknownParser(
        f'"{name}" is not a {kind.title}: one of {", ".join(known)}, or {NO_PARSER}.'
        f"{did_you_mean(name, known)}"
    )


def _checked(loaded: Any, kind: _ParserKind, source: str) -> Any:
    if isinstance(loaded, AnswerFamily):
        if getattr(loaded, kind.member) is None:
            raise UnknownParser(f"{source} declares no {kind.member}")
        try:
            if loaded.calls is not None:
                loaded.calls.check()
        except ValueError as error:
            raise UnknownParser(f"{source}: {error}") from None
        return loaded
    base = kind.base
    if not (inspect.isclass(loaded) and issubclass(loaded, base)):
        wanted = f"neither an AnswerFamily nor a class derived from {base.__name__}"
        raise UnknownParser(f"{source} is {wanted}")
    if inspect.isabstract(loaded):
        raise UnknownParser(f"{source} lacks methods of {base.__name__}")
    return loaded
