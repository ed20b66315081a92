"""Nodes of every calculator in MediaPipe's wheel that needs no image or model.

Each function adds one node, or one group of nodes, to a `GraphBuilder`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.mediapipe_peer.graph_builder import SCALARS, VECTORS, GraphBuilder, StreamMade


def _ext(message: str, body: str) -> str:
    return f"options {{ [mediapipe.{message}.ext] {{ {body} }} }}"


def _any_options(message: str, body: str) -> str:
    return f"node_options: {{ [type.googleapis.com/mediapipe.{message}] {{ {body} }} }}"


def _options(g: GraphBuilder, message: str, body: str) -> str:
    return (_any_options if g.chance(0.3) else _ext)(message, body)


def pass_through(g: GraphBuilder) -> None:
    streams = [g.pick() for _ in range(g.rng.choice((1, 1, 2, 3)))]
    made = [g.make(stream.kind) for stream in streams]
    sides = [g.side(g.rng.choice(SCALARS)) for _ in range(g.rng.choice((0, 0, 0, 1)))]
    made_sides = [g.made_side(side.kind) for side in sides]
    tags = [f"T{i}:" if g.chance(0.2) else "" for i in range(len(streams))]
    g.add(
        "PassThroughCalculator",
        inputs=[tag + stream.name for tag, stream in zip(tags, streams, strict=True)],
        outputs=[tag + stream.name for tag, stream in zip(tags, made, strict=True)],
        side_inputs=[side.name for side in sides],
        side_outputs=[side.name for side in made_sides],
        more=_batching(g),
    )


def _batching(g: GraphBuilder) -> list[str]:
    if g.chance(0.07):
        size = g.rng.choice((1, 2, 3))
        return [
            'input_stream_handler { input_stream_handler: "DefaultInputStreamHandler" options { '
            f"[mediapipe.DefaultInputStreamHandlerOptions.ext] {{ batch_size: {size} }} }} }}"
        ]
    if g.chance(0.05):
        return ['input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }']
    if g.chance(0.05):
        trigger = g.rng.choice((2, 3))
        return [
            'input_stream_handler { input_stream_handler: "FixedSizeInputStreamHandler" options { '
            "[mediapipe.FixedSizeInputStreamHandlerOptions.ext] { "
            f"trigger_queue_size: {trigger} target_queue_size: {g.rng.randint(1, trigger)} "
            f"fixed_min_size: {str(g.chance(0.3)).lower()} }} }} }}"
        ]
    if g.chance(0.05):
        return [f"max_in_flight: {g.rng.choice((2, 3))}"]
    return []


def gate(g: GraphBuilder) -> None:
    streams = [g.pick() for _ in range(g.rng.choice((1, 1, 2)))]
    inputs = [stream.name for stream in streams]
    sides, settings = [], []
    control = g.rng.choice(("stream", "stream", "side", "option"))
    tag = g.rng.choice(("ALLOW", "DISALLOW"))
    if control == "stream":
        inputs.append(f"{tag}:{g.pick('bool').name}")
        if g.chance(0.3):
            settings.append("empty_packets_as_allow: true")
    elif control == "side":
        sides.append(f"{tag}:{g.side('bool').name}")
    else:
        settings.append(f"allow: {str(g.chance(0.6)).lower()}")
    if g.chance(0.3):
        state = g.rng.choice(("GATE_UNINITIALIZED", "GATE_ALLOW", "GATE_DISALLOW"))
        settings.append(f"initial_gate_state: {state}")
    outputs = [g.make(stream.kind).name for stream in streams]
    if g.chance(0.3):
        outputs.append(f"STATE_CHANGE:{g.make('bool').name}")
    more = [_options(g, "GateCalculatorOptions", " ".join(settings))] if settings else []
    g.add("GateCalculator", inputs=inputs, outputs=outputs, side_inputs=sides, more=more)


def flow_limiter(g: GraphBuilder) -> None:
    streams = [g.pick() for _ in range(g.rng.choice((1, 1, 1, 2)))]
    inputs = [stream.name for stream in streams]
    is_loop = g.chance(0.75)
    inputs.append(f"FINISHED:{g.later('FINISHED', None) if is_loop else g.pick().name}")
    outputs = [g.make(stream.kind).name for stream in streams]
    if g.chance(0.4):
        outputs.append(f"ALLOW:{g.make('bool').name}")
    sides = [f"MAX_IN_FLIGHT:{g.side('int').name}"] if g.chance(0.2) else []
    settings = [
        f"{name}: {g.rng.choice(values)}"
        for name, values in (
            ("max_in_flight", (1, 2, 0, -1)),
            ("max_in_queue", (0, 1, 2, -1)),
            ("in_flight_timeout", (0, 3, 10)),
        )
        if g.chance(0.5)
    ]
    more = [_options(g, "FlowLimiterCalculatorOptions", " ".join(settings))] if settings else []
    g.add("FlowLimiterCalculator", inputs=inputs, outputs=outputs, side_inputs=sides, more=more)


def previous_loopback(g: GraphBuilder) -> None:
    main = g.pick()
    if g.chance(0.75):
        kind = g.rng.choice(SCALARS)
        loop = g.later("LOOP", kind)
    else:
        stream = g.pick()
        kind, loop = stream.kind, stream.name
    made = g.make(kind)
    g.add(
        "PreviousLoopbackCalculator",
        inputs=[f"MAIN:{main.name}", f"LOOP:{loop}"],
        outputs=[f"PREV_LOOP:{made.name}"],
    )


def merge(g: GraphBuilder) -> None:
    kind = g.pick().kind
    streams = [g.pick(kind) for _ in range(g.rng.choice((1, 2, 2, 3)))]
    g.add(
        "MergeCalculator",
        inputs=[stream.name for stream in streams],
        outputs=[g.make(kind).name],
        more=_batching(g),
    )


def cycle(g: GraphBuilder) -> None:
    """Add a node that depends on its own output; most such graphs wait for themselves."""
    kind = g.pick(*SCALARS).kind
    inputs = [g.pick(kind).name, g.later(":1", kind)]
    calculator = g.rng.choice(("MergeCalculator", "PassThroughCalculator", "GateCalculator"))
    outputs = [g.make(kind).name for _ in range(1 if calculator == "MergeCalculator" else 2)]
    more = [_ext("GateCalculatorOptions", "allow: true")] if calculator.startswith("Gate") else []
    more += _batching(g)
    if g.chance(0.2):
        more.append(f"buffer_size_hint: {g.rng.choice((1, 2, 5))}")
    g.add(calculator, inputs=inputs, outputs=outputs, more=more)


def packet_presence(g: GraphBuilder) -> None:
    g.add(
        "PacketPresenceCalculator",
        inputs=[f"PACKET:{g.pick().name}"],
        outputs=[f"PRESENCE:{g.make('bool').name}"],
    )


def packet_sequencer(g: GraphBuilder) -> None:
    streams = [g.pick() for _ in range(g.rng.choice((1, 1, 2)))]
    ticks = [g.pick() for _ in range(g.rng.choice((0, 1, 1, 2)))]
    g.add(
        "PacketSequencerCalculator",
        inputs=[
            *(f"INPUT:{i}:{stream.name}" for i, stream in enumerate(streams)),
            *(f"TICK:{i}:{stream.name}" for i, stream in enumerate(ticks)),
        ],
        outputs=[f"OUTPUT:{i}:{g.make(s.kind).name}" for i, s in enumerate(streams)],
    )


def loop_over_items(g: GraphBuilder) -> None:
    """Add BeginLoop, a body, EndLoop."""
    kind, calculator = g.rng.choice(
        (
            ("int", "BeginLoopIntCalculator"),
            ("float", "BeginLoopFloatCalculator"),
            ("string", "BeginLoopStringCalculator"),
        )
    )
    iterable = g.pick(f"vector<{kind}>")
    clones = [g.pick() for _ in range(g.rng.choice((0, 0, 1)))]
    item, end = g.make(kind), g.make("time")
    cloned = [g.make(stream.kind) for stream in clones]
    inputs = [f"ITERABLE:{iterable.name}"]
    inputs += [f"CLONE:{i}:{stream.name}" for i, stream in enumerate(clones)]
    if g.chance(0.2):
        inputs.append(f"TICK:{g.pick().name}")
    g.add(
        calculator,
        inputs=inputs,
        outputs=[
            f"ITEM:{item.name}",
            *(f"CLONE:{i}:{stream.name}" for i, stream in enumerate(cloned)),
            f"BATCH_END:{end.name}",
        ],
    )
    result = item
    for _ in range(g.rng.choice((0, 1, 1, 2))):
        result = _loop_step(g, result, cloned)
    if result.kind not in ("float", "bool"):
        presence = g.make("bool")
        g.add(
            "PacketPresenceCalculator",
            inputs=[f"PACKET:{result.name}"],
            outputs=[f"PRESENCE:{presence.name}"],
        )
        result = presence
    g.add(
        f"EndLoop{'Float' if result.kind == 'float' else 'Boolean'}Calculator",
        inputs=[f"ITEM:{result.name}", f"BATCH_END:{end.name}"],
        outputs=[f"ITERABLE:{g.make(f'vector<{result.kind}>').name}"],
    )


def _loop_step(g: GraphBuilder, item: StreamMade, cloned: list[StreamMade]) -> StreamMade:
    made = g.make(item.kind)
    if cloned and cloned[0].kind == "bool" and g.chance(0.6):
        inputs = [item.name, f"ALLOW:{cloned[0].name}"]
        g.add("GateCalculator", inputs=inputs, outputs=[made.name])
    else:
        g.add("PassThroughCalculator", inputs=[item.name], outputs=[made.name])
    return made


def concatenate(g: GraphBuilder) -> None:
    kind, name = g.rng.choice(
        (("int", "Int32"), ("float", "Float"), ("bool", "Bool"), ("string", "String"))
    )
    streams = [g.pick(kind, f"vector<{kind}>") for _ in range(g.rng.choice((1, 2, 3)))]
    settings = "only_emit_if_all_present: true" if g.chance(0.4) else ""
    more = [_options(g, "ConcatenateVectorCalculatorOptions", settings)] if settings else []
    g.add(
        f"Concatenate{name}VectorCalculator",
        inputs=[stream.name for stream in streams],
        outputs=[g.make(f"vector<{kind}>").name],
        more=[*more, *_batching(g)],
    )


def split(g: GraphBuilder) -> None:
    vector = g.pick("vector<float>")
    count = g.rng.choice((1, 2))
    element_only = g.chance(0.4)
    combine = not element_only and g.chance(0.3)
    ranges = []
    for i in range(count):
        begin = i if combine else g.rng.randint(0, 1)
        length = 1 if element_only or combine else g.rng.randint(1, 2)
        ranges.append(f"ranges {{ begin: {begin} end: {begin + length} }}")
    if element_only:
        ranges.append("element_only: true")
    if combine:
        ranges.append("combine_outputs: true")
    kind = "float" if element_only else "vector<float>"
    g.add(
        "SplitFloatVectorCalculator",
        inputs=[vector.name],
        outputs=[g.make(kind).name for _ in range(1 if combine else count)],
        more=[_options(g, "SplitVectorCalculatorOptions", " ".join(ranges))],
    )


def vector_indices(g: GraphBuilder) -> None:
    g.add(
        "IntVectorIndicesCalculator",
        inputs=[f"VECTOR:{g.pick('vector<int>').name}"],
        outputs=[f"INDICES:{g.make('vector<int>').name}"],
    )


def side_packet_to_stream(g: GraphBuilder) -> None:
    tag = g.rng.choice(("AT_PRESTREAM", "AT_POSTSTREAM", "AT_ZERO", "AT_TICK", "AT_FIRST_TICK"))
    sides = [g.side(g.rng.choice(SCALARS)) for _ in range(g.rng.choice((1, 1, 2)))]
    g.add(
        "SidePacketToStreamCalculator",
        inputs=[f"TICK:{g.pick().name}"] if "TICK" in tag else [],
        outputs=[f"{tag}:{i}:{g.make(side.kind).name}" for i, side in enumerate(sides)],
        side_inputs=[side.name for side in sides],
        more=[f"source_layer: {g.rng.choice((-1, 1, 2))}"]
        if "TICK" not in tag and g.chance(0.3)
        else [],
    )


def side_packet_at_the_end(g: GraphBuilder) -> None:
    side = g.side(g.rng.choice(SCALARS))
    g.add(
        "MediaPipeInternalSidePacketToPacketStreamCalculator",
        outputs=[g.make(side.kind).name],
        side_inputs=[side.name],
    )


def constant_side_packet(g: GraphBuilder) -> None:
    kinds = [g.rng.choice(SCALARS) for _ in range(g.rng.choice((1, 2)))]
    packets = []
    for kind in kinds:
        value = g.value(kind)
        text = f'"{value}"' if kind == "string" else str(value).lower()
        packets.append(f"packet {{ {kind}_value: {text} }}")
    g.add(
        "ConstantSidePacketCalculator",
        side_outputs=[f"PACKET:{i}:{g.made_side(kind).name}" for i, kind in enumerate(kinds)],
        more=[_options(g, "ConstantSidePacketCalculatorOptions", " ".join(packets))],
    )


def string_to_int(g: GraphBuilder) -> None:
    text = g.side("string")
    g.add(
        "StringToIntCalculator",
        side_inputs=[text.name],
        side_outputs=[g.made_side("int").name],
    )


def switch_container(g: GraphBuilder) -> None:
    selection = g.rng.choice(("SELECT", "ENABLE"))
    kind = "int" if selection == "SELECT" else "bool"
    streams = [g.pick() for _ in range(g.rng.choice((1, 1, 2)))]
    inputs = [f"D{i}:{stream.name}" for i, stream in enumerate(streams)]
    sides, settings = [], []
    how = g.rng.choice(("stream", "stream", "side", "option"))
    if how == "stream":
        inputs.append(f"{selection}:{g.pick(kind).name}")
    elif how == "side":
        sides.append(f"{selection}:{g.side(kind).name}")
    else:
        value = g.rng.choice((0, 1)) if kind == "int" else str(g.chance(0.5)).lower()
        settings.append(f"{selection.lower()}: {value}")
    if g.chance(0.3):
        settings.append("async_selection: true")
    if g.chance(0.3):
        settings.append("synchronize_io: true")
    contained = [
        'contained_node { calculator: "PassThroughCalculator" }'
        for _ in range(2 if kind == "bool" else g.rng.choice((2, 3)))
    ]
    g.add(
        "SwitchContainer",
        inputs=inputs,
        outputs=[f"D{i}:{g.make(stream.kind).name}" for i, stream in enumerate(streams)],
        side_inputs=sides,
        more=[_options(g, "SwitchContainerOptions", " ".join([*contained, *settings]))],
    )


Recipe = Callable[[GraphBuilder], None]

#: Functions that add nodes, with their weights.
RECIPES: tuple[tuple[Recipe, int], ...] = (
    (pass_through, 5),
    (gate, 5),
    (flow_limiter, 4),
    (previous_loopback, 4),
    (merge, 4),
    (cycle, 1),
    (packet_presence, 3),
    (packet_sequencer, 1),
    (loop_over_items, 3),
    (concatenate, 2),
    (split, 1),
    (vector_indices, 1),
    (side_packet_to_stream, 2),
    (side_packet_at_the_end, 1),
    (constant_side_packet, 1),
    (string_to_int, 1),
    (switch_container, 2),
)

#: Types of graph inputs.
INPUT_KINDS = (*SCALARS, "int", "bool", *VECTORS)
