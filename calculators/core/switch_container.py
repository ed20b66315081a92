"""SwitchContainer: one of several nodes, chosen while the graph runs."""

from __future__ import annotations

from typing import Any

from calculators.core.switch_channels import OPTIONS, channel_tag
from graph_runtime import (
    GraphConfigError,
    SubgraphContext,
    TagMap,
    parse_graph_text,
    parse_tag_index,
)
from protos.pool import find_extension

#: Tags that choose the channel, which contained nodes do not see, and their names inside.
_SELECTION_NAMES = {"SELECT": "gate_select", "ENABLE": "gate_enable"}
_FIELDS = ("input_stream", "output_stream", "input_side_packet", "output_side_packet")

Ports = dict[tuple[str, int], str]


def switch_container(context: SubgraphContext) -> Any:
    """The graph that a SwitchContainer node stands for: a ``CalculatorGraphConfig``.

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


def _check(node: Any, options: Any) -> None:
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
    """The ports that contained nodes have too, with distinct names."""
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


def _add_sequencer(config: Any, name: str, inputs: Ports, options: Any) -> str:
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
    config: Any, calculator: str, selectors: list[str], options: Any, container: Any
) -> Any:
    """Add the demux or mux node, with all inputs that can select the channel.

    Inputs that the container does not connect are removed when the subgraph is expanded. The
    options stand where those of the ``container`` do.
    """
    node = config.node.add(calculator=calculator)
    own_options = type(options)()
    own_options.CopyFrom(options)
    own_options.ClearField("contained_node")
    extension = find_extension(f"{OPTIONS}.ext")
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
