"""Typed ports: how a calculator class declares its streams and side packets.

::

    class Redact(Calculator):
        text = In[str]("TEXT")
        clean = Out[str]("TEXT")
        hits = Out[int]("HITS", optional=True)

        def process(self, cc: CalculatorContext) -> None:
            cc.emit(self.clean, cc.get(self.text).replace("secret", "***"))

``cc.get(self.text)`` is a ``str`` for mypy and pyright, and ``cc.emit(self.clean, 3)`` an error.
A port without a tag is untagged; several untagged ports take indexes in the order they are
declared. ``multiple=True`` stands for all indexes of the tag that the graph connects.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, get_args, get_origin

from graph_runtime.authoring.packet_type import PacketType
from graph_runtime.errors import Code, GraphError

if TYPE_CHECKING:
    from graph_runtime.authoring.contract import CalculatorContract, PacketTypeSet

T = TypeVar("T")
_TAG: Final = re.compile(r"[A-Z_][A-Z0-9_]*")


class Port(Generic[T]):
    """One declared port."""

    #: Attribute of the contract that holds ports of this kind.
    kind = ""

    def __init__(
        self,
        tag: str = "",
        *,
        index: int | None = None,
        optional: bool = False,
        multiple: bool = False,
        same_as: Port[Any] | None = None,
        doc: str = "",
    ) -> None:
        if tag and _TAG.fullmatch(tag) is None:
            meant = re.sub(r"\W", "_", tag).upper()
            raise GraphError(
                f"{type(self).__name__}({tag!r}): a tag is of capitals, digits and _, and a port "
                f'without one is untagged: write {type(self).__name__}[...]("{meant}")',
                code=Code.INVALID_ARGUMENT,
            )
        self.tag = tag
        self.given_index = index
        self.index = 0
        #: Its key in the contract and the context: a tag, (tag, index), or an untagged index.
        self.key: str | int | tuple[str, int] = 0
        self.stand_at(index or 0)
        self.is_optional = optional
        self.is_multiple = multiple
        self.same_as = same_as
        self.doc = doc
        self.name = ""
        self.packet_spec: Any = Any

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def stand_at(self, index: int) -> None:
        """Take a place among the ports of the tag."""
        self.index = index
        if not self.tag:
            self.key = index
        else:
            self.key = self.tag if index == 0 else (self.tag, index)

    @property
    def spec(self) -> Any:
        """The packet type: ``str`` of ``In[str]("TEXT")``, ``Any`` where none was given."""
        # Generic sets __orig_class__ only after __init__, so it cannot be read there.
        args = get_args(getattr(self, "__orig_class__", None))
        if not args or isinstance(args[0], TypeVar):
            return self.packet_spec
        return args[0]

    def declare(self, contract: CalculatorContract) -> None:
        """Enter this port into a node's contract."""
        types: PacketTypeSet = getattr(contract, self.kind)
        if self.is_multiple:
            keys = [(self.tag, i) for i in range(types.num_entries(self.tag))]
            if not keys and not self.is_optional:
                keys = [(self.tag, 0)]
        else:
            keys = [(self.tag, self.index)]
        for key in keys:
            self._declare_one(types[key], contract)

    def _declare_one(self, packet_type: PacketType, contract: CalculatorContract) -> None:
        if self.same_as is not None:
            source: PacketTypeSet = getattr(contract, self.same_as.kind)
            packet_type.set_same_as(source[self.same_as.tag, self.same_as.index])
        else:
            packet_type.set(self.spec)
        if self.is_optional:
            packet_type.optional()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or self.key!r}>"


class In(Port[T]):
    """An input stream."""

    kind = "inputs"


class Out(Port[T]):
    """An output stream. With ``same_as`` it has the type of another port."""

    kind = "outputs"


class SideIn(Port[T]):
    """An input side packet."""

    kind = "input_side_packets"


class SideOut(Port[T]):
    """An output side packet."""

    kind = "output_side_packets"


def check_ports(cls: type) -> None:
    """Check that a class has made its ports, and not only named their types.

    Raises:
        GraphError: it has not; the text has the line that was meant.
    """
    for name, value in vars(cls).items():
        kind = get_origin(value) or value
        if isinstance(kind, type) and issubclass(kind, Port):
            of = f"[{', '.join(_shown(each) for each in get_args(value))}]" if value != kind else ""
            raise GraphError(
                f"{cls.__qualname__}.{name} is {kind.__name__}{of}, a type and no port: write "
                f'{name} = {kind.__name__}{of or "[str]"}("{name.upper()}")',
                code=Code.INVALID_ARGUMENT,
            )


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def ports_of(cls: type) -> list[Port[Any]]:
    """Return the ports that a class declares, base classes first, in order of declaration.

    Untagged ports without an index get their numbers here.
    """
    found: dict[str, Port[Any]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Port):
                found[name] = value
            else:
                # A subclass gives up a port by another attribute of its name.
                found.pop(name, None)
    ports = list(found.values())
    counters: dict[str, int] = {}
    for port in ports:
        if not port.tag and port.given_index is None and not port.is_multiple:
            port.stand_at(counters.get(port.kind, 0))
            counters[port.kind] = port.index + 1
    return ports
