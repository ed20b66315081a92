"""Annotations of authors without the names that they gave to types.

``type Words = list[str]`` (PEP 695) makes an object of its own that stands for ``list[str]``: NumPy
2.5 declares ``NDArray`` so. Ports, functions, options and what servers tell about them are read
through `resolved`, which returns the type that is meant, at any depth:

    written                             resolved
    Words                               list[str]
    NDArray[np.float32]                 np.ndarray[tuple[Any, ...], np.dtype[np.float32]]
    Words | None                        list[str] | None
    Annotated[Words, "a note"]          list[str]
    UserId, a NewType of str            str
    Tree, of type Tree = list[Tree]     list[Any]

An annotation that holds none of these is returned as it is.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import (
    Annotated,
    Any,
    NewType,
    ParamSpec,
    TypeVar,
    TypeVarTuple,
    Union,
    get_args,
    get_origin,
)

from graphrt_base.errors import Code, GraphError, reason_of
from graphrt_base.interrupts import raise_interrupt

_UNIONS = (Union, types.UnionType)


def resolved(annotation: Any, *, keeps_notes: bool = False) -> Any:
    """Return an annotation without aliases, notes and new types.

    ``keeps_notes``: leave ``Annotated`` with what stands beside the type.

    Raises:
        GraphError: what an alias stands for cannot be evaluated (INVALID_ARGUMENT).
    """
    return _resolved(annotation, {}, (), keeps_notes)


def _resolved(
    hint: Any, bound: Mapping[Any, Any], above: tuple[Any, ...], keeps_notes: bool
) -> Any:
    """Resolve a type. ``bound``: the arguments of the generic aliases that it is in, by type
    parameter; ``above``: these aliases, since one may be part of itself."""
    try:
        if hint in bound:
            return bound[hint]
    except TypeError:  # a list of parameters, or an unhashable argument
        return hint
    if isinstance(hint, NewType):
        return _resolved(hint.__supertype__, bound, above, keeps_notes)
    if _is_alias(hint):
        return _meant(hint, (), above, keeps_notes)
    origin = get_origin(hint)
    if origin is None:
        return hint
    if origin is Annotated and not keeps_notes:
        return _resolved(get_args(hint)[0], bound, above, keeps_notes)
    old = get_args(hint)
    new = _arguments(old, bound, above, keeps_notes)
    if _is_alias(origin):
        return _meant(origin, new, above, keeps_notes)
    if len(new) == len(old) and all(a is b for a, b in zip(old, new, strict=True)):
        return hint
    if origin in _UNIONS:
        return Union[new]  # noqa: UP007
    if origin is Annotated:
        return Annotated[(new[0], *hint.__metadata__)]
    try:
        return hint.copy_with(new) if hasattr(hint, "copy_with") else origin[new]
    except TypeError:  # a form whose arguments are not types, as of Literal
        return hint


def _arguments(
    old: tuple[Any, ...], bound: Mapping[Any, Any], above: tuple[Any, ...], keeps_notes: bool
) -> tuple[Any, ...]:
    new: list[Any] = []
    for each in old:
        inner = get_args(each)
        unpacked = inner[0] if _is_unpacked(each) and inner else each
        if isinstance(unpacked, TypeVarTuple) and unpacked in bound:
            new += bound[unpacked]
        else:
            new.append(_resolved(each, bound, above, keeps_notes))
    return tuple(new)


def _meant(
    alias: Any, arguments: tuple[Any, ...], above: tuple[Any, ...], keeps_notes: bool
) -> Any:
    """Return the type that an alias stands for with these arguments, which are resolved."""
    if alias in above:
        return Any
    try:
        value = alias.__value__
    except BaseException as error:  # it is evaluated now, by code of the author
        raise_interrupt(error)
        raise GraphError(
            f"the type {alias.__name__} cannot be read: {reason_of(error)}",
            code=Code.INVALID_ARGUMENT,
        ) from error
    bound = _bound(alias.__type_params__, arguments)
    return _resolved(value, bound, (*above, alias), keeps_notes)


def _bound(parameters: tuple[Any, ...], arguments: tuple[Any, ...]) -> dict[Any, Any]:
    """Return the arguments by type parameter; defaults (PEP 696) where there is none."""
    bound: dict[Any, Any] = {}
    left = list(arguments)
    for place, parameter in enumerate(parameters):
        if isinstance(parameter, TypeVarTuple):
            many = max(0, len(left) - (len(parameters) - place - 1))
            if arguments:
                bound[parameter], left = tuple(left[:many]), left[many:]
        elif left:
            bound[parameter] = left.pop(0)
        elif isinstance(parameter, TypeVar | ParamSpec) and _has_default(parameter):
            bound[parameter] = parameter.__default__  # type: ignore[union-attr]
    return bound


def _has_default(parameter: Any) -> bool:
    has_default = getattr(parameter, "has_default", None)
    return has_default is not None and bool(has_default())


def _is_unpacked(hint: Any) -> bool:
    return (
        bool(getattr(hint, "__unpacked__", False))
        or getattr(get_origin(hint), "_name", "") == "Unpack"
    )


def _is_alias(hint: Any) -> bool:
    """Return True for an object of ``type X = ...``, of Python 3.12 or of typing_extensions."""
    kind = type(hint)
    return kind.__name__ == "TypeAliasType" and kind in (
        getattr(sys.modules.get(module), "TypeAliasType", None)
        for module in ("typing", "typing_extensions")
    )
