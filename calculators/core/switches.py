"""Switches: one of several nodes, chosen while the graph runs.

`switch_container` expands a SwitchContainer into its nodes between a SwitchDemuxCalculator and a
SwitchMuxCalculator. A channel is the set of streams of one of the nodes: all channels have the same
tags, distinguished by a prefix such as ``C1__``.
Source: MediaPipe ``framework/tool/container_util.cc``.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import Any

from calculators.core.timeline import ValueOverTime
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    GraphConfigError,
    Options,
    Packet,
    SubgraphContext,
    TagMap,
    parse_graph_text,
    parse_tag_index,
)
from graph_runtime import timestamp as ts
from protos import messages
from protos.pool import find_extension

OPTIONS = messages.SwitchContainerOptions

_CHANNEL_TAG = re.compile(r"C([0-9]+)__(.*)\Z")


def channel_tag(tag: str, channel: int) -> str:
    """Return the tag with its channel: ``FRAME`` in channel 1 is ``C1__FRAME``."""
    return f"C{channel}__{tag}"


def channel_tags(tags: Iterable[str]) -> list[str]:
    """Return the distinct tags without their channels, sorted."""
    return sorted({match.group(2) for match in map(_CHANNEL_TAG.match, tags) if match})


def channel_count(tags: Iterable[str]) -> int:
    """Return the number of channels: one more than the highest."""
    channels = [int(match.group(1)) for match in map(_CHANNEL_TAG.match, tags) if match]
    return max(channels, default=-1) + 1


def declare_selection(contract: CalculatorContract) -> None:
    """Declare SELECT and ENABLE, as streams and as side packets."""
    for ports in (contract.inputs, contract.input_side_packets):
        ports["SELECT"].set(int).optional()
        ports["ENABLE"].set(bool).optional()


def declare_channels(common: Any, by_channel: Any) -> None:
    """Give the ports of all channels the types of the common ports they stand for."""
    count = channel_count(by_channel.tags())
    for tag in channel_tags(by_channel.tags()):
        for index in range(common.num_entries(tag)):
            common_type = common[tag, index].set_any()
            for channel in range(count):
                key = (channel_tag(tag, channel), index)
                if key in by_channel:
                    by_channel[key].set_same_as(common_type)


def first_channel(cc: CalculatorContext, options: messages.SwitchContainerOptions) -> int:
    """Return the channel that options and side packets choose, in ``open``; 0 by default."""
    channel = 0
    if options.HasField("enable"):
        channel = int(options.enable)
    if options.HasField("select"):
        channel = options.select
    sides = cc.input_side_packets
    if sides.has_tag("ENABLE"):
        channel = int(sides["ENABLE"].value)
    if sides.has_tag("SELECT"):
        channel = sides["SELECT"].value
    return channel


def selected_channel(cc: CalculatorContext, previous: int) -> int:
    """Return the channel that the streams choose in this call, else the previous one."""
    channel = previous
    if cc.inputs.has_tag("ENABLE") and not cc.inputs["ENABLE"].is_empty():
        channel = int(cc.inputs["ENABLE"].value)
    if cc.inputs.has_tag("SELECT") and not cc.inputs["SELECT"].is_empty():
        channel = cc.inputs["SELECT"].value
    return channel


def selection_settled(cc: CalculatorContext) -> int:
    """Return the bound up to which the channel is known; DONE if no stream chooses it."""
    for tag in ("ENABLE", "SELECT"):
        if cc.inputs.has_tag(tag):
            return cc.inputs[tag].packet.time
    return ts.DONE


class SwitchDemuxCalculator(Calculator):
    """Sends the packets of its inputs to the channel that is selected at their timestamp.

    A packet waits until the selection is known for its timestamp. One that comes after a later
    selection took effect is dropped. Part of what SwitchContainer becomes.

    Inputs:
        SELECT (int, optional): the channel, from its timestamp on.
        ENABLE (bool, optional): the same, for channels 0 (false) and 1 (true).
        any other tags: of any type.
    Outputs: for input TAG:i, C0__TAG:i, C1__TAG:i and so on; a channel may leave some out.
    Input side packets:
        SELECT (int), ENABLE (bool), optional: the first channel.
        any other tags.
    Output side packets: C0__TAG:i and so on; all channels get the side packets.
    Options (mediapipe.SwitchContainerOptions):
        select, enable: the first channel; side packets win over them, default 0.
        synchronize_io: wait for all inputs at each timestamp. By default each input is taken as it
            comes (ImmediateInputStreamHandler).

    ::

        node {
          calculator: "SwitchDemuxCalculator"
          input_stream: "ENABLE:is_exact"
          input_stream: "FRAME:frame"
          output_stream: "C0__FRAME:frame_fast"
          output_stream: "C1__FRAME:frame_exact"
        }

    Source: MediaPipe ``framework/tool/switch_demux_calculator.cc``.
    """

    options = Options(OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        declare_selection(contract)
        declare_channels(contract.inputs, contract.outputs)
        declare_channels(contract.input_side_packets, contract.output_side_packets)
        if not contract.options(OPTIONS).synchronize_io:
            contract.input_stream_handler = "ImmediateInputStreamHandler"
        contract.process_timestamp_bounds = True

    def open(self, cc: CalculatorContext) -> None:
        self._channel = first_channel(cc, self.options)
        self._channels = ValueOverTime(ts.UNSTARTED, self._channel)
        #: Packets and bounds that are not sent yet, by input.
        self._queues: dict[tuple[str, int], deque[Packet]] = {
            (tag, index): deque()
            for tag in channel_tags(cc.outputs.tags())
            for index in range(cc.inputs.num_entries(tag))
        }
        for tag in channel_tags(cc.output_side_packets.tags()):
            for index in range(cc.input_side_packets.num_entries(tag)):
                for channel in range(channel_count(cc.output_side_packets.tags())):
                    side = cc.output_side_packets.get((channel_tag(tag, channel), index))
                    if side is not None:
                        side.set(cc.input_side_packets[tag, index])
        for tag, index in self._queues:
            header = cc.inputs[tag, index].header
            for channel in range(channel_count(cc.outputs.tags())):
                output = cc.outputs.get((channel_tag(tag, channel), index))
                if output is not None and not header.is_empty():
                    output.set_header(header)

    def process(self, cc: CalculatorContext) -> None:
        for place, queue in self._queues.items():
            packet = cc.inputs[place].packet
            if packet.time == cc.time:
                queue.append(packet)
        settled = selection_settled(cc)
        channel = selected_channel(cc, self._channel)
        if settled == cc.time and channel != self._channel:
            self._channel = channel
            self._channels.set(settled, channel)
        self._send(cc, settled)

    def _send(self, cc: CalculatorContext, settled: int) -> None:
        """Send the queued packets, as far as the selection is known."""
        for (tag, index), queue in self._queues.items():
            while queue and queue[0].time <= settled:
                packet = queue.popleft()
                channel = self._channels.at(packet.time)
                if channel is None:
                    continue
                output = cc.outputs.get((channel_tag(tag, channel), index))
                if output is not None:
                    output.add_packet(packet)
        self._channels.forget_before(ts.ONE_OVER_POSTSTREAM)


class SwitchMuxCalculator(Calculator):
    """Passes the packets and bounds of the channel that is selected at their timestamp.

    Packets of other channels are dropped. A change of channel takes effect when all streams of the
    old channel are settled up to it, so outputs stay in order. SwitchContainer expands to this node
    and a SwitchDemuxCalculator.

    Inputs:
        SELECT (int, optional): the channel, from its timestamp on.
        ENABLE (bool, optional): the same, for channels 0 (false) and 1 (true).
        C0__TAG:i, C1__TAG:i and so on: of one type per output.
    Outputs: TAG:i.
    Input side packets:
        SELECT (int), ENABLE (bool), optional: the first channel.
        C0__TAG:i and so on.
    Output side packets: TAG:i: the side packets of the first channel.
    Options (mediapipe.SwitchContainerOptions):
        select, enable: the first channel; side packets win over them, default 0.

    ::

        node {
          calculator: "SwitchMuxCalculator"
          input_stream: "ENABLE:is_exact"
          input_stream: "C0__MASK:mask_fast"
          input_stream: "C1__MASK:mask_exact"
          output_stream: "MASK:mask"
        }

    Source: MediaPipe ``framework/tool/switch_mux_calculator.cc``.
    """

    options = Options(OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        declare_selection(contract)
        declare_channels(contract.outputs, contract.inputs)
        declare_channels(contract.output_side_packets, contract.input_side_packets)
        contract.input_stream_handler = "ImmediateInputStreamHandler"
        contract.process_timestamp_bounds = True

    def open(self, cc: CalculatorContext) -> None:
        self._channel = first_channel(cc, self.options)
        self._channels = ValueOverTime(ts.UNSTARTED, self._channel)
        self._tags = channel_tags(cc.inputs.tags())
        #: Packets and bounds that are not sent yet, by input.
        self._queues: dict[tuple[str, int], deque[Packet]] = {
            place: deque() for place in cc.inputs.places if place[0] not in ("SELECT", "ENABLE")
        }
        for tag in channel_tags(cc.input_side_packets.tags()):
            for index in range(cc.output_side_packets.num_entries(tag)):
                packet = cc.input_side_packets[channel_tag(tag, self._channel), index]
                cc.output_side_packets[tag, index].set(packet)

    def process(self, cc: CalculatorContext) -> None:
        settled = selection_settled(cc)
        channel = selected_channel(cc, self._channel)
        if settled == cc.time and channel != self._channel:
            self._channel = channel
            self._channels.set(settled, channel)
        for place, queue in self._queues.items():
            packet = cc.inputs[place].packet
            if packet.time == cc.time:
                queue.append(packet)
        self._send(cc, settled)

    def _send(self, cc: CalculatorContext, settled: int) -> None:
        """Send the queued packets, one selected channel after the other."""
        while True:
            start, channel = self._channels.first
            change = self._channels.second_time
            end = ts.next_allowed_in_stream(settled) if change is None else change
            channel_settled = self._send_channel(cc, channel, start, end)
            if change is None or ts.next_allowed_in_stream(channel_settled) < end:
                return
            self._channels.drop_first()
            for queue in self._queues.values():
                while queue and queue[0].time < end:
                    queue.popleft()

    def _send_channel(self, cc: CalculatorContext, channel: int, start: int, end: int) -> int:
        """Send a channel's packets in start <= t < end; return the bound to which it is settled."""
        channel_settled = ts.DONE
        for tag in self._tags:
            input_tag = channel_tag(tag, channel)
            for index in range(cc.inputs.num_entries(input_tag)):
                queue = self._queues[input_tag, index]
                while queue and queue[0].time < end:
                    packet = queue.popleft()
                    if packet.time >= start:
                        cc.outputs[tag, index].add_packet(packet)
                channel_settled = min(channel_settled, cc.inputs[input_tag, index].packet.time)
        return channel_settled


#: Tags that choose the channel, which contained nodes do not see, and their names inside.
_SELECTION_NAMES = {"SELECT": "gate_select", "ENABLE": "gate_enable"}
_FIELDS = ("input_stream", "output_stream", "input_side_packet", "output_side_packet")

Ports = dict[tuple[str, int], str]


def switch_container(context: SubgraphContext) -> Any:
    """Return the graph that a SwitchContainer node stands for: a ``CalculatorGraphConfig``.

    Each contained node is a channel. All have the container's ports. The selected one gets the
    packets, the others get timestamp bounds, and the container's outputs are those of the selected
    one. Channels are opened and closed with the graph.

    Inputs:
        SELECT (int, optional): the channel from now on.
        ENABLE (bool, optional): the same, for channels 0 (false) and 1 (true).
        any others: they go to the contained nodes.
    Outputs: any; they come from the contained nodes.
    Input side packets:
        SELECT (int), ENABLE (bool), optional: the first channel.
        any others.
    Output side packets: any; they come from the node of the first channel.
    Options (mediapipe.SwitchContainerOptions):
        contained_node: repeated; with ``calculator`` and ``options``, without streams.
        select, enable: the first channel, default 0.
        async_selection: a selection takes effect as soon as it comes. By default it takes effect at
            its own timestamp, and the inputs wait until the selection is known for theirs.
        synchronize_io: the inputs wait for one another at each timestamp.
        tick_input_stream: "TAG" or "TAG:index" of the inputs whose timestamps order the selection;
            by default all.

    ::

        node {
          calculator: "SwitchContainer"
          input_stream: "ENABLE:is_exact"
          input_stream: "IMAGE:image"
          output_stream: "FACES:faces"
          options {
            [mediapipe.SwitchContainerOptions.ext] {
              contained_node { calculator: "FastFaceDetector" }
              contained_node { calculator: "ExactFaceDetector" }
            }
          }
        }

    Source: MediaPipe ``framework/tool/switch_container.cc``.

    Raises:
        GraphConfigError: more than one way to select.
    """
    node = context.node
    options = context.options(OPTIONS)
    _check(node, options)
    config = parse_graph_text("")
    ports = {field: _ports(getattr(node, field)) for field in _FIELDS}

    selectors = []
    for tag, name in _SELECTION_NAMES.items():
        config.input_stream.append(f"{tag}:{name}")
        config.input_side_packet.append(f"{tag}:{name}")
        if TagMap(node.input_stream).has_tag(tag):
            name = _add_sequencer(config, name, ports["input_stream"], options)
        selectors.append(f"{tag}:{name}")
    demux = _add_switch(config, "SwitchDemuxCalculator", selectors, options, node)
    mux = _add_switch(config, "SwitchMuxCalculator", selectors, options, node)
    for field in _FIELDS:
        side = demux if field.startswith("input") else mux
        for place, name in ports[field].items():
            getattr(config, field).append(_stream(place, name))
            getattr(side, field).append(_stream(place, name))
    for channel, contained in enumerate(options.contained_node):
        inner = config.node.add()
        inner.CopyFrom(contained)
        for field in _FIELDS:
            _connect(inner, demux, mux, field, ports[field], channel)
    return config


def _check(node: Any, options: messages.SwitchContainerOptions) -> None:
    if options.HasField("select") and options.HasField("enable"):
        raise GraphConfigError(
            "Only one of SwitchContainer options 'enable' and 'select' can be specified"
        )
    for entries in (node.input_stream, node.input_side_packet):
        tags = TagMap(entries)
        if all(tags.has_tag(tag) for tag in _SELECTION_NAMES):
            raise GraphConfigError(
                "Only one of SwitchContainer inputs 'ENABLE' and 'SELECT' can be specified"
            )


def _ports(entries: Any) -> Ports:
    """Return the ports that contained nodes have too, with distinct names."""
    tags = TagMap(entries)
    found: Ports = {}
    used: set[str] = set()
    for place, name in zip(tags.keys, tags.names, strict=True):
        if place[0] in _SELECTION_NAMES and place[1] == 0:
            continue
        unique, suffix = name, 2
        while unique in used:
            unique, suffix = f"{name}_{suffix}", suffix + 1
        used.add(unique)
        found[place] = unique
    return found


def _stream(place: tuple[str, int], name: str) -> str:
    tag, index = place
    if not tag:
        return name
    return f"{tag}:{index}:{name}" if index else f"{tag}:{name}"


def _add_sequencer(
    config: Any, name: str, inputs: Ports, options: messages.SwitchContainerOptions
) -> str:
    """Add a node that puts a selection into the order of the inputs; returns its output's name."""
    node = config.node.add(calculator="PacketSequencerCalculator")
    if not options.async_selection:
        node.input_stream_handler.input_stream_handler = "DefaultInputStreamHandler"
    node.input_stream.append(f"INPUT:{name}")
    wanted = [parse_tag_index(text) for text in options.tick_input_stream]
    ticks = [stream for place, stream in inputs.items() if not wanted or place in wanted]
    for index, stream in enumerate(ticks):
        node.input_stream.append(_stream(("TICK", index), stream))
    timed = f"{name}_timed"
    node.output_stream.append(f"OUTPUT:{timed}")
    return timed


def _add_switch(
    config: Any,
    calculator: str,
    selectors: list[str],
    options: messages.SwitchContainerOptions,
    container: Any,
) -> Any:
    """Add the demux or mux node, with all inputs that can select the channel.

    Inputs that the container does not connect are removed when the subgraph is expanded. The
    options replace the options of the ``container``.
    """
    node = config.node.add(calculator=calculator)
    own_options = type(options)()
    own_options.CopyFrom(options)
    own_options.ClearField("contained_node")
    extension = find_extension(f"{OPTIONS.DESCRIPTOR.full_name}.ext")
    if container.options.HasExtension(extension):
        node.options.Extensions[extension].CopyFrom(own_options)
    else:
        node.node_options.add().Pack(own_options)
    node.input_stream.extend(selectors)
    node.input_side_packet.extend(f"{tag}:{name}" for tag, name in _SELECTION_NAMES.items())
    return node


def _connect(inner: Any, demux: Any, mux: Any, field: str, ports: Ports, channel: int) -> None:
    """Connect the inputs of a contained node to the demux, its outputs to the mux."""
    is_input = field.startswith("input")
    other, other_field = (
        (demux, field.replace("input", "output"))
        if is_input
        else (mux, field.replace("output", "input"))
    )
    for (tag, index), name in ports.items():
        inner_name = f"c{channel}__{name}"
        getattr(inner, field).append(_stream((tag, index), inner_name))
        getattr(other, other_field).append(_stream((channel_tag(tag, channel), index), inner_name))
