"""Builder of graphs that tracks existing streams and side packets with their types."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tests.mediapipe_peer.case import NodeText

SCALARS = ("int", "float", "bool", "string")
VECTORS = ("vector<int>", "vector<float>", "vector<string>")


@dataclass(frozen=True)
class StreamMade:
    """A stream and the type of its packets."""

    name: str
    kind: str


@dataclass(frozen=True)
class OpenLoop:
    """An input that waits for a stream that a later node makes."""

    node: int
    tag: str
    kind: str | None
    name: str


class GraphBuilder:
    """Adds nodes whose inputs exist, and records their outputs."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.inputs: list[StreamMade] = []
        self.streams: list[StreamMade] = []
        self.sides: list[StreamMade] = []
        self.side_packets: dict[str, tuple[str, Any]] = {}
        self.nodes: list[NodeText] = []
        self.loops: list[OpenLoop] = []
        self._number = 0

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def new_name(self, prefix: str = "s") -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    # Streams --------------------------------------------------------------------------------------

    def add_input(self, kind: str) -> StreamMade:
        stream = StreamMade(self.new_name("in"), kind)
        self.inputs.append(stream)
        self.streams.append(stream)
        return stream

    def make(self, kind: str) -> StreamMade:
        """Return the name of a new output stream."""
        stream = StreamMade(self.new_name(), kind)
        self.streams.append(stream)
        return stream

    def pick(self, *kinds: str) -> StreamMade:
        """Return a stream of one of the kinds (any, if none is given), preferably a recent one."""
        fitting = [stream for stream in self.streams if not kinds or stream.kind in kinds]
        if not fitting:
            return self.add_input(self.rng.choice(kinds or SCALARS))
        if self.chance(0.6):
            return self.rng.choice(fitting[-4:])
        return self.rng.choice(fitting)

    def later(self, tag: str, kind: str | None) -> str:
        """Return the name of a stream that a later node will make; for the node made next."""
        name = self.new_name("loop")
        self.loops.append(OpenLoop(len(self.nodes), tag, kind, name))
        return name

    # Side packets ---------------------------------------------------------------------------------

    def given_side(self, kind: str) -> StreamMade:
        """Return a side packet from the application."""
        side = StreamMade(self.new_name("side"), kind)
        self.side_packets[side.name] = (kind, self.value(kind))
        return side

    def side(self, kind: str) -> StreamMade:
        """Return a side packet: an existing one, or one from the application."""
        fitting = [side for side in self.sides if side.kind == kind]
        return self.rng.choice(fitting) if fitting and self.chance(0.7) else self.given_side(kind)

    def made_side(self, kind: str) -> StreamMade:
        side = StreamMade(self.new_name("side"), kind)
        self.sides.append(side)
        return side

    # Values ---------------------------------------------------------------------------------------

    def value(self, kind: str) -> Any:
        rng = self.rng
        if kind.startswith("vector<"):
            return [self.value(kind[7:-1]) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        if kind == "int":
            return rng.randint(-2, 5)
        if kind == "float":
            return rng.randint(-8, 8) / 4
        if kind == "bool":
            return rng.random() < 0.5
        return rng.choice(("", "a", "b", "12", "-3"))

    # Nodes ----------------------------------------------------------------------------------------

    def add(self, calculator: str, **fields: Any) -> None:
        """Add a node; lists may be passed for the tuples of `NodeText`."""
        self.nodes.append(NodeText(calculator, **{key: tuple(v) for key, v in fields.items()}))
