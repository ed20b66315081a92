"""Limits of a rendering: `RenderLimits`, the `Budget` while it runs, and guards of operations.

A guard checks the arguments before the operation runs, because one step of C code can be neither
interrupted nor undone: ``'x' * 10**10`` is a few bytes of template. There are two kinds:

- guards of operations whose result may be far larger than their arguments compute its size;
- guards of operations that walk through values (comparisons, look-ups, hashes) weigh these, because
  a list that contains itself many times over is small, but takes for ever to compare.

`ChatTemplateError` is what they raise, as does everything else that loads or renders a template.
"""

from __future__ import annotations

import operator
import re
import string
from collections.abc import Callable, ItemsView, Iterable, KeysView, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from time import monotonic, thread_time
from typing import Any, TypeVar

from jinja2.environment import TemplateModule
from jinja2.utils import Namespace

from graphrt_base.errors import Code, GraphError

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_LONGEST_REASON = 500


class ChatTemplateError(GraphError):
    """The template cannot be loaded, or cannot render this request.

    ``code`` is INVALID_ARGUMENT where the template fails with the request, and FAILED_PRECONDITION
    where the model's files are wrong. The text is one clean line that may go to a client, without
    paths or addresses.

    Attributes:
        param: the field of the request at fault, ``chat_template_kwargs.tools``; None when the
            template gives no hint.
    """

    code = Code.INVALID_ARGUMENT

    def __init__(self, message: str, *, param: str | None = None, code: Code | None = None) -> None:
        super().__init__(message, code=code)
        self.param = param


def clean(text: str) -> str:
    """Return a foreign text as one short line."""
    line = _CONTROL.sub(" ", _ADDRESS.sub("", text[: 4 * _LONGEST_REASON])).strip()
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}..."


T = TypeVar("T")

#: The cost of one element of a list, in characters.
ELEMENT = 16
#: The size of all values made in one rendering, as a multiple of the longest prompt. Most are
#: garbage soon; a template that keeps them all holds this much.
TURNOVER = 64
#: The longest integer in bits. Arithmetic on longer ones takes time that grows with the square.
MAX_BITS = 65_536
#: Characters of a template: compiling so many takes up to two seconds.
LONGEST_TEMPLATE = 256 * 1024
#: The largest count that a filter may be asked for.
MAX_COUNT = 100_000


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """The limits of one rendering.

    Attributes:
        seconds: processor time, checked between the steps of the template.
        output_characters: the longest prompt, and the longest string or list on the way to it.
        loop_ticks: turns of loops, calls of macros and includes, all together.
        compile_seconds: processor time for compiling a template.
    """

    seconds: float = 2.0
    output_characters: int = 4 * 1024 * 1024
    loop_ticks: int = 1_000_000
    compile_seconds: float = 10.0


class Budget:
    """The rest of one rendering's limits; methods raise `ChatTemplateError` when it is used up.

    Attributes:
        longest: the longest text or list, in characters.
        given: the values of the request, which a template may not change.
    """

    __slots__ = (
        "_characters",
        "_deadline",
        "_given_lists",
        "_limits",
        "_processor_deadline",
        "_seconds",
        "_ticks",
        "_work",
        "given",
        "longest",
    )

    def __init__(self, limits: RenderLimits, *, compiles: bool = False) -> None:
        self._limits = limits
        self.longest = limits.output_characters
        self._work = "compiling" if compiles else "rendering"
        self._seconds = limits.compile_seconds if compiles else limits.seconds
        self._deadline = monotonic() + self._seconds
        self._processor_deadline = thread_time() + self._seconds
        self._ticks = limits.loop_ticks
        self._characters = TURNOVER * limits.output_characters
        self.given: Any = None
        self._given_lists: frozenset[int] | None = None

    def check_time(self) -> None:
        # Time spent waiting for a processor does not count. The first clock is the cheaper one.
        if monotonic() > self._deadline and thread_time() > self._processor_deadline:
            raise ChatTemplateError(
                f"{self._work} the chat template took longer than {self._seconds:g} seconds"
            )

    def tick(self) -> None:
        """Count one turn of a loop, or one call of a macro."""
        self._ticks -= 1
        if self._ticks < 0:
            raise ChatTemplateError(
                f"the chat template takes more than {self._limits.loop_ticks} turns of its loops"
            )
        self.check_time()

    def allow(self, characters: int) -> None:
        """Check that a value of this length may be made."""
        if characters > self._limits.output_characters:
            raise ChatTemplateError(
                "the chat template makes a text or list longer than"
                f" {self._limits.output_characters} characters"
            )

    def create(self, characters: int) -> None:
        """Charge for a value of this length that is about to be made, or has been."""
        self.allow(characters)
        self._characters -= characters
        if self._characters < 0:
            raise ChatTemplateError(
                "the chat template makes more than"
                f" {TURNOVER * self._limits.output_characters} characters of intermediate values"
            )

    def made(self, value: T) -> T:
        """Charge for a value that an operation has made, and return it."""
        if isinstance(value, (str, bytes)):
            self.create(len(value))
        elif isinstance(value, (list, tuple, dict)):
            self.create(ELEMENT * len(value))
        elif isinstance(value, int):
            self.allow_bits(value.bit_length())
        return value

    def allow_bits(self, bits: int) -> None:
        if bits > MAX_BITS:
            raise ChatTemplateError(f"the chat template makes an integer of over {MAX_BITS} bits")

    def allow_count(self, count: object) -> None:
        if isinstance(count, int) and abs(count) > MAX_COUNT:
            raise ChatTemplateError(
                f"the chat template passes {count} to a filter that takes up to {MAX_COUNT}"
            )

    def may_change(self, value: list[Any]) -> bool:
        """Return True for a list that the template has made."""
        if self._given_lists is None:
            found: set[int] = set()
            waiting = [self.given]
            while waiting:
                self.check_time()
                item = waiting.pop()
                if isinstance(item, Mapping):
                    waiting += item.values()
                elif isinstance(item, (list, tuple)) and id(item) not in found:
                    found.add(id(item))
                    waiting += item
            self._given_lists = frozenset(found)
        return id(value) not in self._given_lists

    def weigh(self, value: Any) -> int:
        """Return about how many characters ``value`` has as text; raise if that is too long.

        A list that contains itself many times over is small until it is printed.
        """
        most = self._limits.output_characters
        weight = _weight(value, most)
        if weight > most:
            self.allow(weight)
        return weight


def _weight(value: Any, most: int) -> int:
    """Return about how many characters ``value`` has as text, or any number above ``most``."""
    if type(value) is str:
        return len(value)
    total = 0
    # No recursion: a loop of a template may nest lists deeper than Python's limit.
    waiting = [value]
    while waiting and total <= most:
        item = waiting.pop()
        if isinstance(item, str):
            total += len(item) + 2
        elif isinstance(item, dict):
            total += 4 * len(item)
            waiting += item
            waiting += item.values()
        elif isinstance(item, (list, tuple, KeysView, ValuesView, ItemsView)):
            total += 2 * len(item)
            waiting += item
        elif isinstance(item, Namespace):
            total += 2
            waiting.append(item._Namespace__attrs)
        elif isinstance(item, TemplateModule):
            total += sum(map(len, item._body_stream))
        else:
            total += 8
    return total


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

#: Filters that compare or hash values, with the place after the values of the argument that names
#: an attribute to compare instead.
COMPARING_FILTERS: Mapping[str, int] = {"groupby": 0, "max": 1, "min": 1, "sort": 2, "unique": 1}

#: Tests that neither print nor hash their arguments.
LIGHT_TESTS = frozenset(
    {"boolean", "callable", "defined", "divisibleby", "escaped", "even", "false", "float"}
    | {"integer", "iterable", "mapping", "none", "number", "odd", "sameas", "sequence", "string"}
    | {"true", "undefined"}
)


# --- comparisons ---------------------------------------------------------------------------------

#: Types whose values compare in no time with a value of any type.
_ATOMS = frozenset({bool, float, int, str, type(None)})

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
}


def compare(budget: Budget, first: Any, *rest: tuple[str, Any]) -> Any:
    """Evaluate ``first < second <= third``; ``rest`` has Jinja's names of operators, and values."""
    result: Any = True
    left = first
    for name, right in rest:
        budget.check_time()
        if name == "in":
            result = contains(budget, right, left)
        elif name == "notin":
            result = not contains(budget, right, left)
        else:
            _check_pair(budget, left, right)
            result = _ORDERS[name](left, right)
        if not result:
            break
        left = right
    return result


def contains(budget: Budget, container: Any, item: Any) -> bool:
    """Evaluate ``item in container``."""
    if isinstance(container, (list, tuple)):
        check_search(budget, container, item)
    elif hasattr(type(container), "__contains__"):
        check_key(budget, item)
    elif isinstance(container, Iterable):
        return any(compare(budget, item, ("eq", each)) for each in container)
    return item in container


def check_search(budget: Budget, values: Sequence[Any], item: Any) -> None:
    """Check that ``item`` may be searched among ``values``."""
    most = budget.longest // (len(values) + 1)
    if _weight(item, most) > most:
        budget.weigh(values)


def check_key(budget: Budget, key: Any) -> None:
    """Check that ``key`` may be hashed, or shown in an error."""
    if type(key) not in _ATOMS:
        budget.weigh(key)


def _check_pair(budget: Budget, left: Any, right: Any) -> None:
    """Check that two values may be compared; the lighter one bounds the work."""
    if type(left) in _ATOMS or type(right) in _ATOMS:
        return
    if _weight(left, budget.longest) > budget.longest:
        budget.weigh(right)


def _test_of(name: str) -> Callable[[Budget, Any, Any], Any]:
    return lambda budget, left, right: compare(budget, left, (name, right))


#: Jinja's tests that compare.
TESTS: Mapping[str, Callable[[Budget, Any, Any], Any]] = {
    test: _test_of(name)
    for name, tests in (
        ("in", ("in",)),
        ("eq", ("==", "eq", "equalto")),
        ("ne", ("!=", "ne")),
        ("lt", ("<", "lt", "lessthan")),
        ("lteq", ("<=", "le")),
        ("gt", (">", "gt", "greaterthan")),
        ("gteq", (">=", "ge")),
    )
    for test in tests
}
