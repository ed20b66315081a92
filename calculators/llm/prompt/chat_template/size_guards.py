"""Guards of operations whose result may be far larger than their arguments.

Each guard checks the arguments before the operation runs, because one step of C code can be neither
interrupted nor undone: ``'x' * 10**10`` is a few bytes of template.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from typing import Any

from calculators.llm.prompt.chat_template.errors import ChatTemplateError
from calculators.llm.prompt.chat_template.limits import ELEMENT, Budget

_PRINTF = re.compile(r"%(?:\([^)]*\))?[#0\- +]*(\*|\d*)(?:\.(\*|\d*))?")
_DIGITS = re.compile(r"\d+")
_ENCODINGS = ("utf-8", "utf8", "ascii", "latin-1", "latin1")
_LONGEST_WIDTH = 9  # in digits
_MOST_COPIED = 1 << 32  # characters; about a second


# --- operators -----------------------------------------------------------------------------------


def add(budget: Budget, left: Any, right: Any) -> Any:
    if isinstance(left, (str, bytes)) and isinstance(right, (str, bytes)):
        budget.create(len(left) + len(right))
    elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        budget.create(ELEMENT * (len(left) + len(right)))
    return left + right


def multiply(budget: Budget, left: Any, right: Any) -> Any:
    for one, other in ((left, right), (right, left)):
        if isinstance(other, int) and isinstance(one, (str, bytes)):
            budget.create(len(one) * max(other, 0))
        elif isinstance(other, int) and isinstance(one, (list, tuple)):
            budget.create(ELEMENT * len(one) * max(other, 0))
    if isinstance(left, int) and isinstance(right, int):
        budget.allow_bits(left.bit_length() + right.bit_length())
    return left * right


def subtract(budget: Budget, left: Any, right: Any) -> Any:
    if not isinstance(left, (int, float)):
        # Differences of sets of keys hash their operands.
        budget.weigh(left)
        budget.weigh(right)
    return left - right


def power(budget: Budget, left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        budget.allow_bits(left.bit_length() * right)
    return left**right


def remainder(budget: Budget, left: Any, right: Any) -> Any:
    if isinstance(left, str):
        check_printf(budget, left, right)
    elif isinstance(left, bytes):
        raise ChatTemplateError("the chat template formats bytes; only text can be formatted")
    return left % right


OPERATORS: Mapping[str, Callable[[Budget, Any, Any], Any]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "**": power,
    "%": remainder,
}


# --- formats -------------------------------------------------------------------------------------


def check_printf(budget: Budget, pattern: str, values: Any) -> None:
    """Check the size of ``pattern % values``."""
    size, fields = len(pattern), 0
    for width, precision in _PRINTF.findall(pattern):
        fields += 1
        size += _width(width) + _width(precision)
    budget.allow(size + fields * _heaviest(budget, values))


def check_format(budget: Budget, pattern: str, args: Any, kwargs: Any) -> None:
    """Check the size of ``pattern.format(*args, **kwargs)``."""
    size, fields = len(pattern), 0
    for _, field, spec, _ in string.Formatter().parse(pattern):
        if field is None:
            continue
        fields += 1
        if spec and "{" in spec:
            raise ChatTemplateError("the chat template computes the width of a format field")
        size += sum(map(_width, _DIGITS.findall(spec or "")))
    budget.allow(size + fields * max(_heaviest(budget, args), _heaviest(budget, kwargs)))


def _width(digits: str) -> int:
    if digits == "*" or len(digits) > _LONGEST_WIDTH:
        raise ChatTemplateError("the chat template formats with a computed or absurd width")
    return int(digits or 0)


def _heaviest(budget: Budget, values: Any) -> int:
    if isinstance(values, Mapping):
        values = tuple(values.values())
    if not isinstance(values, tuple):
        values = (values,)
    return max(map(budget.weigh, values), default=0)


# --- methods of text -----------------------------------------------------------------------------


def _pad(budget: Budget, text: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if args and isinstance(args[0], int):
        budget.allow(args[0])
    return args


def _expand_tabs(budget: Budget, text: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if args and isinstance(args[0], int):
        budget.allow(len(text) + len(text) * args[0])
    return args


def _replace(budget: Budget, text: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(args) >= 2 and isinstance(args[0], type(text)) and isinstance(args[1], (str, bytes)):
        # An empty text is found before, between and after all characters.
        budget.allow(len(text) + text.count(args[0]) * len(args[1]))
    return args


def _join(budget: Budget, text: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(args) != 1 or isinstance(args[0], (str, bytes)):
        return args
    parts = list(args[0])
    size = sum(len(part) for part in parts if isinstance(part, (str, bytes)))
    budget.allow(size + len(text) * len(parts))
    return (parts,)


def _encode(budget: Budget, text: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    # Some of Python's other codecs take quadratic time.
    if args and args[0] not in _ENCODINGS:
        raise ChatTemplateError("the chat template encodes a text other than as UTF-8 or Latin-1")
    return args


def _refuse(budget: Budget, text: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    raise ChatTemplateError("the chat template calls a method that templates may not use")


_TEXT_METHODS: Mapping[str, Callable[[Budget, Any, tuple[Any, ...]], tuple[Any, ...]]] = {
    "center": _pad,
    "ljust": _pad,
    "rjust": _pad,
    "zfill": _pad,
    "expandtabs": _expand_tabs,
    "replace": _replace,
    "join": _join,
    "encode": _encode,
    "decode": _encode,
    "translate": _refuse,
}


def checked_arguments(
    budget: Budget, owner: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Check a call of ``owner.name(...)``; return the arguments to call it with."""
    if isinstance(owner, (str, bytes)):
        check = _TEXT_METHODS.get(name)
        if check is not None:
            args = check(budget, owner, (*args, *kwargs.values()))[: len(args)]
    elif name == "to_bytes":
        _pad(budget, owner, (*args, *kwargs.values()))
    return args


# --- filters -------------------------------------------------------------------------------------


def argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, name: str) -> Any:
    """Return an argument that may be given by place or by name; None where it is absent."""
    return args[place] if len(args) > place else kwargs.get(name)


def _center(budget: Budget, *args: Any, **kwargs: Any) -> None:
    _pad(budget, args[0], (argument(args, kwargs, 1, "width"),))


def _indent(budget: Budget, *args: Any, **kwargs: Any) -> None:
    width = argument(args, kwargs, 1, "width")
    size = width if isinstance(width, int) else len(width or "    ")
    budget.allow(len(args[0]) + size * (args[0].count("\n") + 1))


def _batch(budget: Budget, *args: Any, **kwargs: Any) -> None:
    budget.allow_count(argument(args, kwargs, 1, "linecount"))


def _slice(budget: Budget, *args: Any, **kwargs: Any) -> None:
    budget.allow_count(argument(args, kwargs, 1, "slices"))


def _round(budget: Budget, *args: Any, **kwargs: Any) -> None:
    precision = argument(args, kwargs, 1, "precision")
    if isinstance(precision, int):
        budget.allow_bits(4 * abs(precision))  # Python computes this power of ten


def _strip_tags(budget: Budget, *args: Any, **kwargs: Any) -> None:
    # The rest of the text is copied for each tag.
    text = str(args[0])
    if len(text) * text.count("<") > _MOST_COPIED:
        raise ChatTemplateError("the chat template strips too many tags from too long a text")


def _wordwrap(budget: Budget, *args: Any, **kwargs: Any) -> None:
    wrap = argument(args, kwargs, 3, "wrapstring")
    budget.allow(len(args[0]) * (1 + len(wrap or "")))


def _replace_filter(budget: Budget, *args: Any, **kwargs: Any) -> None:
    old = argument(args, kwargs, 1, "old")
    new = argument(args, kwargs, 2, "new")
    _replace(budget, str(args[0]), (str(old), str(new)))


def _format(budget: Budget, *args: Any, **kwargs: Any) -> None:
    check_printf(budget, str(args[0]), kwargs or args[1:])


#: Guards of Jinja's filters; the first argument is the filtered value.
FILTERS: Mapping[str, Callable[..., None]] = {
    "batch": _batch,
    "center": _center,
    "format": _format,
    "indent": _indent,
    "replace": _replace_filter,
    "round": _round,
    "slice": _slice,
    "striptags": _strip_tags,
    "wordwrap": _wordwrap,
}

#: Filters that neither print nor compare their arguments, which need not be weighed.
LIGHT_FILTERS = frozenset(
    {"batch", "count", "d", "default", "first", "from_json", "items", "last", "length", "list"}
    | {"map", "random", "reject", "rejectattr", "reverse", "select", "selectattr", "slice"}
)

#: Filters that compare or hash values, with the place behind the values of the argument that names
#: an attribute to compare instead.
COMPARING_FILTERS: Mapping[str, int] = {"groupby": 0, "max": 1, "min": 1, "sort": 2, "unique": 1}

#: Tests that neither print nor hash their arguments.
LIGHT_TESTS = frozenset(
    {"boolean", "callable", "defined", "divisibleby", "escaped", "even", "false", "float"}
    | {"integer", "iterable", "mapping", "none", "number", "odd", "sameas", "sequence", "string"}
    | {"true", "undefined"}
)
