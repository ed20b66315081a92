"""Packet types: what a stream or side packet may carry, and whether two ends of an edge agree.

The kinds are MediaPipe's (``framework/packet_type.h``): exactly one type, any type, one of several,
the same as another port, or none. Types are Python types; the scalar ones are named in messages as
MediaPipe names them (``str`` is "string", ``list[int]`` is "vector<int>"). As in MediaPipe, values
are not converted. Otherwise types mean what they mean to Python's type checkers: an ``int`` will do
for a ``float`` (PEP 484), though a ``bool`` will not; a ``TypedDict`` takes a ``dict``, of which
nothing inside is checked; a ``Protocol`` takes what has its members; a ``Literal`` its values.

A class may stand for others, which its attribute ``stands_for`` names: a port that takes its
instances takes theirs too. So a list of landmarks may be an array in one branch of a graph and
MediaPipe's message in another, and both may come together.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from functools import cache
from typing import Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, is_typeddict

from graph_runtime.errors import Code, PacketTypeError
from graph_runtime.packet import EMPTY
from graphrt_base.annotations import resolved

_NAMES: dict[Any, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "string",
    bytes: "bytes",
    list: "vector",
    dict: "map",
}


def type_name(spec: Any) -> str:
    """A type as messages print it."""
    name = _NAMES.get(spec)
    if name is not None:
        return name
    origin, args = get_origin(spec), get_args(spec)
    if origin is None:
        return getattr(spec, "__name__", None) or str(spec)
    inner = ", ".join(type_name(arg) for arg in args)
    return f"{type_name(origin)}<{inner}>"


def value_type_name(value: Any) -> str:
    """Return the name of a value's type; the first element of a list stands for all."""
    if value is EMPTY:
        return "empty"
    if isinstance(value, list) and value:
        return f"vector<{value_type_name(value[0])}>"
    return type_name(type(value))


def _stood_for(spec: Any) -> tuple[type, ...]:
    """Return the classes whose instances are as good as instances of ``spec``."""
    found: tuple[type, ...] = getattr(spec, "stands_for", ())
    return found


#: The numbers that are as good as others, by PEP 484. A bool is an int in Python, not in a graph.
_NUMBERS: dict[Any, tuple[type, ...]] = {
    int: (int,),
    float: (float, int),
    complex: (complex, float, int),
}


def _is_protocol(spec: Any) -> bool:
    return isinstance(spec, type) and bool(getattr(spec, "_is_protocol", False))


@cache
def _members(protocol: type) -> frozenset[str]:
    """Return the names that an object has to have, without what ``Protocol`` itself has."""
    found: set[str] = set()
    for each in protocol.__mro__:
        if _is_protocol(each) and each is not Protocol:
            found |= {*vars(each), *vars(each).get("__annotations__", ())}
    return frozenset(found - _OF_EVERY_PROTOCOL)


class _Plain(Protocol):
    pass


_OF_EVERY_PROTOCOL = frozenset(
    {*vars(_Plain), *vars(Protocol), "__annotations__", "__non_callable_proto_members__"}
    | {"__orig_bases__", "__annotate_func__", "__annotations_cache__", "__type_params__"}
    | {
        "__static_attributes__",
        "__firstlineno__",
        "__protocol_attrs__",
        "__conditional_annotations__",
    }
)


def _is_instance(value: Any, kind: type) -> bool:
    if is_typeddict(kind):
        return isinstance(value, dict)
    if _is_protocol(kind):
        return all(hasattr(value, name) for name in _members(kind))
    return isinstance(value, kind)


def _accepts(spec: Any, value: Any) -> bool:
    origin: Any = get_origin(spec)
    if origin is None:
        if spec in _NUMBERS:
            return isinstance(value, _NUMBERS[spec]) and not isinstance(value, bool)
        if not isinstance(spec, type) or _is_instance(value, spec):
            return True
        return isinstance(value, _stood_for(spec))
    if origin is Literal:
        return value in get_args(spec)
    if not isinstance(origin, type) or not _is_instance(value, origin):
        return not isinstance(origin, type)
    args = get_args(spec)
    if isinstance(value, list) and value and args:
        # The first element stands for all: checking every one would cost O(n) per packet.
        return args[0] is Any or _accepts(args[0], value[0])
    return True


def _assignable(source: Any, target: Any) -> bool:
    """Return True if a packet of type ``source`` could be a ``target``."""
    if source == target or source in _stood_for(target):
        return True
    if bool in (source, target):
        return False
    if Literal in (get_origin(source), get_origin(target)):
        return _is_literal_of(source, target) or _is_literal_of(target, source)
    a, b = get_origin(source) or source, get_origin(target) or target
    if not (isinstance(a, type) and isinstance(b, type)):
        return False
    inner, wanted = get_args(source), get_args(target)
    if inner and wanted:
        return _is_subclass(a, b) and _agree(inner, wanted)
    # ``list`` may hold what ``list[int]`` says, and ``np.ndarray`` what ``NDArray[...]`` says.
    return _is_subclass(a, b)


def _is_literal_of(literal: Any, spec: Any) -> bool:
    """Return True if a value of the literal could be of the other type."""
    return get_origin(literal) is Literal and any(
        _accepts(spec, each) for each in get_args(literal)
    )


def _is_subclass(source: type, target: type) -> bool:
    if target in _NUMBERS:
        return issubclass(source, _NUMBERS[target])
    if is_typeddict(target):
        # A plain dict may be one.
        return source is dict or (
            is_typeddict(source)
            and getattr(target, "__required_keys__") <= source.__annotations__.keys()  # noqa: B009
        )
    if is_typeddict(source):
        return _is_subclass(dict, target)
    if _is_protocol(target):
        # Attributes may be set by `__init__`, so only methods can be missed in a class.
        return target in source.__mro__ or all(
            hasattr(source, name)
            for name in _members(target)
            if callable(getattr(target, name, None))
        )
    return issubclass(source, target)


def _agree(inner: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    """Return True if the arguments of two generic types leave room for a common value."""
    if Ellipsis in inner or Ellipsis in wanted:
        return True
    return len(inner) == len(wanted) and all(
        Any in (a, b) or isinstance(a, TypeVar) or isinstance(b, TypeVar) or _assignable(a, b)
        for a, b in zip(inner, wanted, strict=True)
    )


class PacketType:
    """The declared type of one port. Made by a contract, resolved by validation."""

    __slots__ = ("_kind", "_same_as", "is_optional", "quick", "types")

    def __init__(self) -> None:
        #: In a checker: a class whose direct instances are accepted without further checks.
        self.quick: Any = None
        self._kind: str | None = None
        self._same_as: PacketType | None = None
        self.types: tuple[Any, ...] = ()
        self.is_optional = False

    @staticmethod
    def any() -> PacketType:
        """A type that accepts every packet."""
        return PacketType().set_any()

    def set(self, spec: Any) -> PacketType:
        """Allow packets of this type, which may be ``typing.Any``, a union, or an alias."""
        spec = resolved(spec)
        if spec is Any or spec is object:
            return self.set_any()
        if get_origin(spec) in (Union, types.UnionType):
            return self.set_one_of(*get_args(spec))
        self._kind, self.types, self._same_as = "exact", (spec,), None
        return self

    def set_any(self) -> PacketType:
        """Allow packets of every type."""
        self._kind, self.types, self._same_as = "any", (), None
        return self

    def set_one_of(self, *specs: Any) -> PacketType:
        """Allow packets of any of these types."""
        found: list[Any] = []
        for spec in map(resolved, specs):
            is_union = get_origin(spec) in (Union, types.UnionType)
            found += get_args(spec) if is_union else (spec,)
        self._kind, self.types, self._same_as = "one_of", tuple(found), None
        return self

    def set_same_as(self, other: PacketType) -> PacketType:
        """Allow the packets that another port allows."""
        self._kind, self.types, self._same_as = "same_as", (), other
        return self

    def set_none(self) -> PacketType:
        """Allow no packet at all."""
        self._kind, self.types, self._same_as = "none", (), None
        return self

    def optional(self) -> PacketType:
        """Allow the port to be missing from the node."""
        self.is_optional = True
        return self

    @property
    def is_initialized(self) -> bool:
        """True if a contract has declared this type."""
        return self._kind is not None

    def root(self) -> PacketType:
        """Return the type that a chain of SameAs ends at."""
        seen = self
        while seen._same_as is not None and seen._same_as is not self:
            seen = seen._same_as
        return seen

    @property
    def is_any(self) -> bool:
        """True if every packet is allowed."""
        return self.root()._kind in ("any", "same_as", None)

    @property
    def is_one_of(self) -> bool:
        """True if several types are allowed."""
        return self.root()._kind == "one_of"

    @property
    def is_exact(self) -> bool:
        """True if exactly one type is allowed."""
        return self.root()._kind == "exact"

    @property
    def is_none(self) -> bool:
        """True if no packet is allowed."""
        return self.root()._kind == "none"

    def narrow(self, other: PacketType) -> None:
        """Take over the type of the other end of an edge, now and after that is narrowed."""
        root, target = self.root(), other.root()
        if root is not target:
            root.set_same_as(target)

    def widen(self, source: PacketType) -> None:
        """Take over the type of a further source of this port whose packets stand for the others'.

        Only for a port that has its type from elsewhere, such as a channel of a switch.
        """
        root, other = self.root(), source.root()
        if root is not self and root.is_exact and other.is_exact:
            [known], [new] = root.types, other.types
            if known in _stood_for(new):
                root.set_same_as(other)

    def is_consistent_with(self, target: PacketType) -> bool:
        """Return True if ``target`` could accept a packet of this type."""
        a, b = self.root(), target.root()
        if a.is_none or b.is_none:
            return a.is_none and b.is_none
        if a.is_any or b.is_any:
            return True
        return any(_assignable(s, t) for s in a.types for t in b.types)

    def checker(self) -> PacketType | None:
        """Return the type that a stream validates packets with; None if it accepts everything."""
        root = self.root()
        if root.is_any:
            return None
        if root._kind == "exact":
            spec = root.types[0]
            origin: Any = get_origin(spec)
            # A list's elements are checked too; what other generic classes hold is not.
            is_whole = isinstance(origin, type) and not issubclass(origin, list)
            root.quick = origin if is_whole else spec
        return root

    def accepts(self, value: Any) -> bool:
        """Return True if a packet with this value is allowed."""
        root = self.root()
        if root._kind == "exact":
            spec = root.types[0]
            return type(value) is spec or _accepts(spec, value)
        return root.is_any or any(_accepts(spec, value) for spec in root.types)

    def validate(self, value: Any) -> None:
        """Check a payload.

        Raises:
            PacketTypeError: it is empty or of another type (INTERNAL for an empty exact one).
        """
        root = self.root()
        if value is EMPTY:
            if root.is_exact:
                raise PacketTypeError(
                    f"Expected a Packet of type: {root.name}, but received an empty Packet.",
                    code=Code.INTERNAL,
                )
            raise PacketTypeError(f"Empty packets are not allowed for type: {root.name}")
        if root.is_none:
            raise PacketTypeError("No packet is allowed for type: [No Type]")
        if not root.accepts(value):
            wanted = ", ".join(f'"{type_name(spec)}"' for spec in root.types)
            one_of = f"one of {wanted}" if len(root.types) > 1 else wanted
            raise PacketTypeError(
                f'The Packet stores "{value_type_name(value)}", but {one_of} was requested.'
            )

    def refusal(self, stream: str, value: Any) -> PacketTypeError:
        """Return the error for a payload on a stream of this type that `accepts` has refused."""
        try:
            self.validate(value)
        except PacketTypeError as error:
            return PacketTypeError(
                f'Packet type mismatch on calculator outputting to stream "{stream}": {error}',
                code=error.code,
            )
        raise AssertionError(f"{stream}: `accepts` and `validate` disagree")

    @property
    def name(self) -> str:
        """The resolved type for people."""
        root = self.root()
        if root.is_none:
            return "[No Type]"
        if root.is_any:
            return "[Any Type]"
        names = [type_name(spec) for spec in root.types]
        return names[0] if len(names) == 1 else f"OneOf<{', '.join(names)}>"

    def __repr__(self) -> str:
        return f"<PacketType {self.name}{' optional' if self.is_optional else ''}>"


def one_of(specs: Iterable[Any]) -> Any:
    """A union of the given types."""
    return Union[tuple(specs)]  # noqa: UP007
