"""Runner for graphs of core calculators: text and feeds in, packets of the streams out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, SupportsIndex

import calculators
from graph_runtime import REGISTRY, CalculatorGraph, Packet, Registry

#: In place of a value: no packet, but a timestamp bound.
BOUND: Final = "<bound>"
#: In place of a timestamp and value: the stream ends.
CLOSE: Final = "<close>"

Feed = tuple[str, SupportsIndex, Any] | tuple[str, str]
Seen = list[tuple[int, Any]]


def core_registry() -> Registry:
    registry = Registry(REGISTRY)
    calculators.register_all(registry)
    return registry


class Running:
    """A started graph. Everything sent is processed before the next packet is sent."""

    def __init__(
        self,
        text: str,
        watch: str = "out",
        side_packets: Mapping[str, Any] | None = None,
        bounds: bool = False,
        headers: Mapping[str, Any] | None = None,
    ) -> None:
        self.graph = CalculatorGraph(text_config=text, registry=core_registry())
        self.graph.check_invariants()
        self.seen: dict[str, Seen] = {}
        self._is_ending = False
        for name in watch.split():
            self.seen[name] = []
            self.graph.observe_output_stream(name, self._see, bounds)
        self.graph.start_run(side_packets or {}, headers or {})
        self.graph.wait_until_idle()

    def _see(self, name: str, packet: Packet) -> None:
        if packet.is_empty() and self._is_ending:
            return
        value = None if packet.is_empty() else packet.value
        self.seen[name].append((int(packet.timestamp), value))

    def send(self, *feeds: Feed) -> None:
        for feed in feeds:
            if feed[1] == CLOSE:
                self.graph.close_input_stream(feed[0])
            elif len(feed) == 3 and feed[2] is BOUND:
                self.graph.set_input_stream_timestamp_bound(feed[0], feed[1])
            elif len(feed) == 3:
                self.graph.add_packet_to_input_stream(feed[0], Packet(feed[2], feed[1]))
            self.graph.wait_until_idle()

    def finish(self) -> None:
        """End the run. Packets that follow count; bounds that only the end brings do not."""
        self._is_ending = True
        self.graph.close_all_packet_sources()
        self.graph.wait_until_done()


def run(
    text: str,
    feeds: Iterable[Feed] = (),
    watch: str = "out",
    side_packets: Mapping[str, Any] | None = None,
    bounds: bool = False,
    headers: Mapping[str, Any] | None = None,
) -> dict[str, Seen]:
    """Feed a graph, end it, and return the packets of each watched stream.

    ``text`` needs no ``input_stream`` of its own: the streams that are fed are declared.
    A watched stream gives (timestamp, value) pairs; with ``bounds`` the value None stands for a
    timestamp that was settled without a packet.
    """
    feeds = list(feeds)
    names = dict.fromkeys(feed[0] for feed in feeds)
    declared = "".join(f'input_stream: "{name}"\n' for name in names)
    running = Running(declared + text, watch, side_packets, bounds, headers)
    running.send(*feeds)
    running.finish()
    return running.seen


def side_outputs(text: str, names: str, side_packets: Mapping[str, Any]) -> list[Any]:
    """Run a graph without feeds and return its output side packets."""
    graph = CalculatorGraph(text_config=text, registry=core_registry())
    graph.start_run(side_packets)
    graph.wait_until_done()
    return [graph.get_output_side_packet(name).value for name in names.split()]


def packets(stream: str, *times_and_values: tuple[SupportsIndex, Any]) -> list[Feed]:
    """Feeds of one stream."""
    return [(stream, time, value) for time, value in times_and_values]


def at(stream: str, *times: int) -> list[Feed]:
    """Feeds whose values are their timestamps."""
    return [(stream, time, time) for time in times]
