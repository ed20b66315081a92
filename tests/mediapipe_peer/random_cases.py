"""Random cases: graphs that both sides accept, their inputs, and graphs with a fault."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.mediapipe_peer.case import NodeText, PeerCase, Step, stream_of
from tests.mediapipe_peer.graph_builder import GraphBuilder, OpenLoop
from tests.mediapipe_peer.random_faults import FAULTS
from tests.mediapipe_peer.random_nodes import INPUT_KINDS, RECIPES


def random_case(seed: int) -> PeerCase:
    """Return the case of a number, which is always the same."""
    rng = random.Random(seed)
    g = GraphBuilder(rng)
    for _ in range(rng.choice((1, 2, 2, 3))):
        g.add_input(rng.choice(INPUT_KINDS))
    recipes = [recipe for recipe, weight in RECIPES for _ in range(weight)]
    for _ in range(rng.choice((1, 2, 3, 3, 4, 5, 6, 10))):
        rng.choice(recipes)(g)
    for loop in g.loops:
        _close_loop(g, loop)
    if rng.random() < 0.2:
        _shuffle_nodes(g)
    streams = [stream.name for stream in g.streams]
    case = PeerCase(
        nodes=tuple(g.nodes),
        inputs=tuple(stream.name for stream in g.inputs),
        header=tuple(_header(rng)),
        observed=tuple(streams if rng.random() < 0.8 else rng.sample(streams, 1)),
        observe_bounds=rng.random() < 0.75,
        side_packets=g.side_packets,
        steps=(("start",), *_feed(g), *_end(g)),
        add_mode=rng.choice(("WAIT_TILL_NOT_FULL",) * 4 + ("ADD_IF_NOT_FULL",)),
        reruns=1 if rng.random() < 0.15 else 0,
    )
    if rng.random() < 0.15:
        case = rng.choice(FAULTS)(rng, case)
    return case


def _header(rng: random.Random) -> list[str]:
    lines = []
    if rng.random() < 0.3:
        lines.append(f"max_queue_size: {rng.choice((1, 1, 2, 3, -1))}")
        if rng.random() < 0.3:
            lines.append("report_deadlock: true")
    if rng.random() < 0.04:
        name = rng.choice(("Immediate", "FixedSize", "Default"))
        lines.append(f'input_stream_handler {{ input_stream_handler: "{name}InputStreamHandler" }}')
    return lines


def _close_loop(g: GraphBuilder, loop: OpenLoop) -> None:
    """Choose the stream that a loop returns on."""
    consumer = g.nodes[loop.node]
    made_by = {stream_of(p): i for i, node in enumerate(g.nodes) for p in node.outputs}
    fitting = [s for s in g.streams if loop.kind in (None, s.kind)]
    later = [s.name for s in fitting if made_by.get(s.name, -1) > loop.node]
    below = [name for name in later if name in _below(g, consumer)]
    if below and g.chance(0.8):
        name = g.rng.choice(below)
    elif later:
        name = g.rng.choice(later)
    elif loop.kind is None or not fitting or g.chance(0.5):
        if loop.kind is None:
            source = g.rng.choice(consumer.outputs)
        else:
            source = (g.rng.choice(fitting) if fitting else g.add_input(loop.kind)).name
        made = g.make(loop.kind or "int")
        g.add("PassThroughCalculator", inputs=[stream_of(source)], outputs=[made.name])
        name, later = made.name, [made.name]
    else:
        name = g.rng.choice(fitting).name
    inputs = tuple(p.replace(loop.name, name) for p in consumer.inputs)
    back_edges = (loop.tag,) if name in later or g.chance(0.05) else ()
    g.nodes[loop.node] = replace(consumer, inputs=inputs, back_edges=back_edges)


def _below(g: GraphBuilder, node: NodeText) -> set[str]:
    """Return the streams downstream of a node."""
    found = {stream_of(port) for port in node.outputs}
    while True:
        more = {
            stream_of(port)
            for other in g.nodes
            if any(stream_of(p) in found for p in other.inputs)
            for port in other.outputs
        }
        if more <= found:
            return found
        found |= more


def _shuffle_nodes(g: GraphBuilder) -> None:
    """Shuffle the nodes: their order in the text is free, and the engine sorts them."""
    g.rng.shuffle(g.nodes)


def _feed(g: GraphBuilder) -> list[Step]:
    rng = g.rng
    tracks = [_track(g, stream.name, stream.kind) for stream in g.inputs]
    steps: list[Step] = []
    if rng.random() < 0.5:
        steps.append(("idle",))
    idle = rng.choice((0.1, 0.3, 0.9))
    while any(tracks):
        track = rng.choice([track for track in tracks if track])
        steps.append(track.pop(0))
        if rng.random() < idle:
            steps.append(("idle",))
    return steps


def _track(g: GraphBuilder, name: str, kind: str) -> list[Step]:
    """Return the packets of one graph input, in order."""
    rng = g.rng
    steps: list[Step] = []
    if rng.random() < 0.04:
        return [("add", name, kind, g.value(kind), rng.choice(("PRESTREAM", "POSTSTREAM")))]
    time = rng.choice((0, 0, 1, 5, -3))
    if rng.random() < 0.05:
        steps.append(("add", name, kind, g.value(kind), "MIN"))
    for _ in range(rng.choice((0, 1, 2, 4, 6, 12))):
        draw = rng.random()
        if draw < 0.8:
            steps.append(("add", name, kind, g.value(kind), time))
        elif draw < 0.93:
            steps.append(("bound", name, time))
        elif draw < 0.95:
            steps.append(("add", name, kind, g.value(kind), time - 3))
        elif draw < 0.96:
            other = rng.choice([other for other in INPUT_KINDS if other != kind])
            value = g.value(other)
            if value == []:
                value = [g.value(other[7:-1])]  # an empty list could be of any type in Python
            steps.append(("add", name, other, value, time))
        time += rng.choice((1, 1, 1, 2, 5))
    if rng.random() < 0.05:
        special = rng.choice(("MAX", "MAX", "POSTSTREAM"))
        steps.append(("add", name, kind, g.value(kind), special))
    if rng.random() < 0.3:
        steps.append(("close", name))
        if rng.random() < 0.1:
            steps.append(("add", name, kind, g.value(kind), time + 1))
    return steps


def _end(g: GraphBuilder) -> list[Step]:
    steps: list[Step] = [("idle",)] if g.chance(0.7) else []
    # One by one, because MediaPipe closes the remaining ones in the order of a hash map.
    for stream in g.inputs:
        steps.append(("close", stream.name))
        if g.chance(0.2):
            steps.append(("idle",))
    return [*steps, ("close sources",), ("done",)]
