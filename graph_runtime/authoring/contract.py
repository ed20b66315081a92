"""Contracts: the promises of a node about its ports, made before the node exists.

A contract is made for one node of one graph: it knows which ports the graph connects, so a
calculator can declare as many as it finds (``for key in contract.inputs: ...``).
Source: MediaPipe ``framework/calculator_contract.h``, ``packet_type.h``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, overload

from graph_runtime.authoring.packet_type import PacketType
from graph_runtime.authoring.service import GraphService, ServiceRequest
from graph_runtime.errors import GraphConfigError, did_you_mean
from graph_runtime.language.tag_map import TagMap, port_label
from graph_runtime.options.options import OptionsType, find_options

T = TypeVar("T")

PortKey = str | int | tuple[str, int]


def split_key(key: PortKey) -> tuple[str, int]:
    """``"TAG"`` -> ("TAG", 0); ``2`` -> ("", 2); ``("TAG", 1)`` as it is."""
    if isinstance(key, tuple):
        return key
    return (key, 0) if isinstance(key, str) else ("", key)


def options_of_node(config: Any, options_type: Any) -> Any:
    """A node's options by class, or by the full name of a message type."""
    if isinstance(options_type, str):
        options_type = OptionsType.of(options_type).message_class
    return find_options(config, options_type)


def _example(tag: str, index: int) -> str:
    """An entry of a graph's text that connects a port."""
    name = tag.lower() if tag else "name"
    if not tag:
        return name
    return f"{tag}:{name}" if not index else f"{tag}:{index}:{name}_{index}"


class PacketTypeSet:
    """The declared types of the ports of one kind: ``types["TAG"]``, ``types[0]``,
    ``types["TAG", 1]``.

    Asking for a port that the graph does not connect gives a dummy, and is an error at the end
    unless the dummy is made ``optional()``.
    """

    __slots__ = ("_missing", "_types", "tag_map")

    def __init__(self, tag_map: TagMap) -> None:
        self.tag_map = tag_map
        self._types = {key: PacketType() for key in tag_map}
        self._missing: dict[tuple[str, int], PacketType] = {}

    def __getitem__(self, key: PortKey) -> PacketType:
        place = split_key(key)
        found = self._types.get(place)
        return found if found is not None else self._missing.setdefault(place, PacketType())

    def __contains__(self, key: PortKey) -> bool:
        return split_key(key) in self._types

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Return the connected ports, in id order."""
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def has_tag(self, tag: str) -> bool:
        """Return True if the graph connects a port with this tag."""
        return self.tag_map.has_tag(tag)

    def tags(self) -> list[str]:
        """Return the distinct tags of the connected ports, sorted."""
        return self.tag_map.tags()

    def num_entries(self, tag: str | None = None) -> int:
        """Return the number of connected ports, with this tag or in all."""
        return self.tag_map.num_entries(tag)

    def in_order(self) -> list[PacketType]:
        """Return the types in id order."""
        return list(self._types.values())

    def problems(self, field: str) -> list[str]:
        """Ports asked for and missing, then ports connected and never declared.

        ``field`` is their name in a graph's text, such as ``input_stream``.
        """
        missing = [key for key, each in self._missing.items() if not each.is_optional]
        unexpected = [key for key, each in self._types.items() if not each.is_initialized]
        found = []
        for tag, index in missing:
            entry = _example(tag, index)
            instead = [port_label(*key) for key in unexpected if key[0]]
            near = did_you_mean(tag, [key[0] for key in unexpected if key[0]]) if tag else ""
            there = f", only {', '.join(instead)}" if instead else ""
            found.append(
                f'Failed to get tag "{tag}" index {index}: the calculator needs the {field} '
                f"{port_label(tag, index)}, and the node does not have it{there}; write "
                f'{field}: "{entry}"' + (f" ({near.strip()})" if near and instead else "")
            )
        known = [key for key, each in self._types.items() if each.is_initialized]
        known += [key for key in self._missing if key not in known]
        labels = ", ".join(port_label(*key) for key in sorted(known)) or "none"
        for tag, index in unexpected:
            near = did_you_mean(tag, {key[0] for key in known if key[0]}) if tag else ""
            found.append(
                f'Tag "{tag}" index {index} was not expected. As {field} the calculator takes '
                f"{labels}.{near}"
            )
        return found


class CalculatorContract:
    """Filled in by ``Calculator.contract`` and ``Calculator.update_contract``.

    Attributes:
        timestamp_offset: None, or d: a call at input timestamp t settles every output up to t + d.
        process_timestamp_bounds: call ``process`` for settled timestamps without packets too.
        input_stream_handler: name of the handler, unless the graph names one.
        input_stream_handler_options: its ``MediaPipeOptions``, or None.
        sync_sets: the inputs that a call waits for together, set by set, unless the graph names a
            handler. Inputs that no set names form one more; a set may name inputs that the graph
            does not connect. No handler may wait for inputs of different sets together.
        apart: inputs that must be alone in their set, which the graph has to say: see `set_apart`.
        max_in_flight: how many ``process`` calls of this node may overlap (from the graph; read
            only in effect).
    """

    def __init__(
        self,
        node_name: str,
        config: Any,
        inputs: TagMap,
        outputs: TagMap,
        input_side_packets: TagMap,
        output_side_packets: TagMap,
    ) -> None:
        self.node_name = node_name
        self.config = config
        self.inputs = PacketTypeSet(inputs)
        self.outputs = PacketTypeSet(outputs)
        self.input_side_packets = PacketTypeSet(input_side_packets)
        self.output_side_packets = PacketTypeSet(output_side_packets)
        self.timestamp_offset: int | None = None
        self.process_timestamp_bounds = False
        self.input_stream_handler = ""
        self.input_stream_handler_options: Any = None
        self.sync_sets: Sequence[Sequence[PortKey]] = ()
        self.apart: set[tuple[str, int]] = set()
        self.max_in_flight = max(1, config.max_in_flight) if config is not None else 1
        self.service_requests: dict[str, ServiceRequest] = {}

    @overload
    def options(self, options_type: type[T]) -> T: ...
    @overload
    def options(self, options_type: str) -> Any: ...
    def options(self, options_type: Any) -> Any:
        """The node's options as a message or dataclass of this type; defaults when not given.

        A message type may be given by its full name.
        """
        return options_of_node(self.config, options_type)

    def use_service(self, service: GraphService[Any], *, optional: bool = False) -> None:
        """Ask for a service; without ``optional`` the run does not start when it is missing."""
        self.service_requests[service.key] = ServiceRequest(service, optional)

    def set_apart(self, key: PortKey) -> None:
        """Refuse graphs in which calls wait for this input together with others.

        For a loop that the node itself feeds: under the default handler it would never run. A node
        whose graphs run in MediaPipe or OpenVINO Model Server too calls this, because they wait for
        ever without a sync set in the graph; ``sync_sets`` supplies it.
        """
        self.apart.add(split_key(key))

    def require(self, condition: bool, message: str) -> None:
        """Refuse the graph.

        Raises:
            GraphConfigError: ``condition`` is false.
        """
        if not condition:
            raise GraphConfigError(message)

    def problems(self) -> list[str]:
        """The declarations that do not fit, in the words of MediaPipe's ValidatePacketTypeSet."""
        found = []
        for field, types in (
            ("input_stream", self.inputs),
            ("output_stream", self.outputs),
            ("input_side_packet", self.input_side_packets),
            ("output_side_packet", self.output_side_packets),
        ):
            problems = types.problems(field)
            kind = field.replace("_", " ") + "s"
            if problems:
                found.append(
                    f"For {kind} of {self.node_name} ValidatePacketTypeSet failed:\n"
                    + "\n".join(problems)
                )
        return found
