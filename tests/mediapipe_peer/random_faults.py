"""Faults of graphs: each function breaks one thing, or tries to."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

from tests.mediapipe_peer.case import NodeText, PeerCase, stream_of

Fault = Callable[[random.Random, PeerCase], PeerCase]


def _change(rng: random.Random, case: PeerCase, change: Callable[[NodeText], NodeText]) -> PeerCase:
    if not case.nodes:
        return case
    place = rng.randrange(len(case.nodes))
    return case.with_node(place, change(case.nodes[place]))


def _drop(rng: random.Random, ports: tuple[str, ...]) -> tuple[str, ...]:
    if not ports:
        return ports
    place = rng.randrange(len(ports))
    return ports[:place] + ports[place + 1 :]


def drop_input(rng: random.Random, case: PeerCase) -> PeerCase:
    return _change(rng, case, lambda node: replace(node, inputs=_drop(rng, node.inputs)))


def drop_output(rng: random.Random, case: PeerCase) -> PeerCase:
    return _change(rng, case, lambda node: replace(node, outputs=_drop(rng, node.outputs)))


def drop_side_packet(rng: random.Random, case: PeerCase) -> PeerCase:
    return _change(rng, case, lambda node: replace(node, side_inputs=_drop(rng, node.side_inputs)))


def drop_made_side_packet(rng: random.Random, case: PeerCase) -> PeerCase:
    return _change(
        rng, case, lambda node: replace(node, side_outputs=_drop(rng, node.side_outputs))
    )


def drop_node(rng: random.Random, case: PeerCase) -> PeerCase:
    return case.without_node(rng.randrange(len(case.nodes)))


def repeat_node(rng: random.Random, case: PeerCase) -> PeerCase:
    return replace(case, nodes=(*case.nodes, rng.choice(case.nodes)))


def other_stream(rng: random.Random, case: PeerCase) -> PeerCase:
    """Read an input from another stream: a cycle, a wrong type, or just another graph."""
    other = rng.choice(sorted(case.streams))

    def change(node: NodeText) -> NodeText:
        if not node.inputs:
            return node
        port = rng.choice(node.inputs)
        tag, _, _ = port.rpartition(":")
        new = f"{tag}:{other}" if tag else other
        return replace(node, inputs=tuple(new if p == port else p for p in node.inputs))

    return _change(rng, case, change)


def unknown_stream(rng: random.Random, case: PeerCase) -> PeerCase:
    return _change(rng, case, lambda node: replace(node, inputs=(*node.inputs, "nowhere")))


def unknown_calculator(rng: random.Random, case: PeerCase) -> PeerCase:
    name = rng.choice(("NoSuchCalculator", "mediapipe.PassThroughCalculator", "", "passThrough"))
    return _change(rng, case, lambda node: replace(node, calculator=name))


def no_back_edge(rng: random.Random, case: PeerCase) -> PeerCase:
    return replace(case, nodes=tuple(replace(node, back_edges=()) for node in case.nodes))


def odd_back_edge(rng: random.Random, case: PeerCase) -> PeerCase:
    tag_index = rng.choice(("", ":0", "NOPE", ":7", "FINISHED:0", "LOOP", "bad tag", "MAIN:00"))
    return _change(rng, case, lambda node: replace(node, back_edges=(*node.back_edges, tag_index)))


def odd_port(rng: random.Random, case: PeerCase) -> PeerCase:
    streams = sorted(case.streams)
    port = rng.choice(
        (
            "Upper",
            "tag:lower",
            "TAG:",
            ":name",
            "TAG:01:name",
            "TAG:1:" + rng.choice(streams),
            "1name",
            "T T:name",
            "",
            "na-me",
            "TAG:-1:name",
            "EXTRA:" + rng.choice(streams),
        )
    )
    if rng.random() < 0.5:
        return _change(rng, case, lambda node: replace(node, inputs=(*node.inputs, port)))
    return _change(rng, case, lambda node: replace(node, outputs=(*node.outputs, port)))


def odd_graph_input(rng: random.Random, case: PeerCase) -> PeerCase:
    port = rng.choice(("Upper", "TAG:odd", "TAG:1:odd", rng.choice(sorted(case.streams)), "unused"))
    return replace(case, inputs=(*case.inputs, port))


def odd_header(rng: random.Random, case: PeerCase) -> PeerCase:
    line = rng.choice(
        (
            'executor { name: "x" }',
            'executor { name: "x" type: "NoSuchExecutor" }',
            'executor { name: "default" type: "ThreadPoolExecutor" }',
            "num_threads: -2",
            "num_threads: 2",
            'input_stream_handler { input_stream_handler: "NoSuchHandler" }',
            'output_stream: "nothing_makes_this"',
            'output_stream: "Odd Name"',
            'output_stream: "TAG:named"',
            'input_side_packet: "not_given"',
            'output_side_packet: "not_made"',
            "max_queue_size: 0",
            "max_queue_size: -5",
            "no_such_field: 1",
            'type: "Named"',
            'package: "some.package"',
            "runtime_info { enable_graph_runtime_info: false }",
        )
    )
    return replace(case, header=(*case.header, line))


def odd_field(rng: random.Random, case: PeerCase) -> PeerCase:
    line = rng.choice(
        (
            "source_layer: 1",
            "max_in_flight: 0",
            "max_in_flight: 4",
            "buffer_size_hint: 2",
            'executor: "nowhere"',
            'name: "Named"',
            'name: "named"',
            'input_stream_handler { input_stream_handler: "NoSuchHandler" }',
            'output_stream_handler { output_stream_handler: "NoSuchHandler" }',
            'output_stream_handler { output_stream_handler: "InOrderOutputStreamHandler" }',
            "options { [mediapipe.GateCalculatorOptions.ext] { allow: true } }",
            "options { [mediapipe.NoSuchOptions.ext] { allow: true } }",
            "options { [mediapipe.GateCalculatorOptions.ext] { no_such_field: true } }",
            "node_options: { [type.googleapis.com/mediapipe.GateCalculatorOptions] {} }",
            "node_options: { [type.googleapis.com/mediapipe.NoSuchOptions] {} }",
            'input_side_packet: "nobody_gives_this"',
            'output_side_packet: "nobody_makes_this"',
            'external_input: "old"',
        )
    )
    return _change(rng, case, lambda node: replace(node, more=(*node.more, line)))


def missing_side_packet(rng: random.Random, case: PeerCase) -> PeerCase:
    if not case.side_packets:
        return case
    lost = rng.choice(sorted(case.side_packets))
    left = {name: value for name, value in case.side_packets.items() if name != lost}
    return replace(case, side_packets=left)


def other_side_packet_type(rng: random.Random, case: PeerCase) -> PeerCase:
    if not case.side_packets:
        return case
    name = rng.choice(sorted(case.side_packets))
    return replace(case, side_packets={**case.side_packets, name: ("vector<int>", [1])})


def given_and_made(rng: random.Random, case: PeerCase) -> PeerCase:
    made = [stream_of(port) for node in case.nodes for port in node.side_outputs]
    if not made:
        return case
    return replace(case, side_packets={**case.side_packets, rng.choice(made): ("int", 1)})


def odd_text(rng: random.Random, case: PeerCase) -> PeerCase:
    """Make one or two changes of the text itself, mostly ones that no parser accepts."""
    edits = []
    for _ in range(rng.choice((1, 1, 2))):
        tokens = re.findall(r'"[^"]*"|\w+|[^\w\s]', case.text)
        old = rng.choice(tokens)
        new = rng.choice(
            (
                "",
                old + old,
                f"{old} {old}",
                f"# {old}",
                f"{old},",
                f"{old};",
                rng.choice(tokens),
                f"{rng.choice(tokens)} {old}",
                rng.choice(("{", "}", "<", ">", "[", "]", ":", "'", '"', "\\x41", "-1", "1e9")),
                old.replace('"', "'"),
                old.upper(),
                f"{old[: len(old) // 2]}{old[len(old) // 2 + 1 :]}",
            )
        )
        edits.append((old, new))
    return replace(case, edits=tuple(edits))


FAULTS: tuple[Fault, ...] = (
    drop_input,
    drop_output,
    drop_side_packet,
    drop_made_side_packet,
    drop_node,
    repeat_node,
    other_stream,
    other_stream,
    other_stream,
    unknown_stream,
    unknown_calculator,
    no_back_edge,
    odd_back_edge,
    odd_port,
    odd_port,
    odd_graph_input,
    odd_header,
    odd_header,
    odd_field,
    odd_field,
    missing_side_packet,
    other_side_packet_type,
    given_and_made,
    odd_text,
    odd_text,
    odd_text,
)
