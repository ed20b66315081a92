"""The graphrt side of a case."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    GraphError,
    GraphInputStreamAddMode,
    NotFoundError,
    Packet,
    Timestamp,
    parse_graph_text,
)
from graph_runtime import timestamp as ts
from graph_runtime.engine.invariants import InvariantError
from tests.mediapipe_peer.case import PeerCase

SECONDS_PER_CASE = 4
_TIMES = {name: value for value, name in ts.SPECIAL_NAMES.items()}


class TookTooLongError(BaseException):
    """Not an Exception, so that no handler takes it for an error of the graph."""


@contextmanager
def _limited_time(seconds: int) -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TookTooLongError

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def time_of(value: int | str) -> Timestamp:
    return Timestamp.of(_TIMES[value]) if isinstance(value, str) else Timestamp(value)


def shown_time(value: int) -> int | str:
    return ts.SPECIAL_NAMES.get(value, value)


def shown_value(value: Any) -> list[Any]:
    """Return a value in the other side's form: in a list, so that None can mean no packet."""
    return ["<opaque>"] if isinstance(value, Timestamp) else [value]


def run_here(case: PeerCase) -> dict[str, Any]:
    """Return graphrt's answer to a case, in the form of the other side's answer."""
    answer: dict[str, Any] = {"refused": None, "runs": []}
    try:
        with _limited_time(SECONDS_PER_CASE):
            try:
                graph = CalculatorGraph(parse_graph_text(case.text), registry=REGISTRY)
            except GraphError as error:
                answer["refused"] = str(error)
                return answer
            _run(case, graph, answer)
    except TookTooLongError:
        return {"died": "timeout"}
    except InvariantError as error:
        return {"died": str(error)}
    return answer


def _run(case: PeerCase, graph: CalculatorGraph, answer: dict[str, Any]) -> None:
    graph.check_invariants()
    graph.graph_input_stream_add_mode = GraphInputStreamAddMode[case.add_mode]
    answer["nodes"] = [
        [
            node.name,
            node.calculator,
            list(node.input_stream),
            list(node.output_stream),
            list(node.input_side_packet),
            list(node.output_side_packet),
        ]
        for node in graph.plan.config.node
    ]
    observed: dict[str, list[Any]] = {}
    for name in case.observed:
        observed[name] = []

        def observe(_stream: str, packet: Packet, seen: list[Any] = observed[name]) -> None:
            value = None if packet.is_empty() else shown_value(packet.value)
            seen.append([shown_time(packet.time), value])

        try:
            graph.observe_output_stream(name, observe, case.observe_bounds)
        except NotFoundError:
            observed[name].append("no such stream")
    for _ in range(case.reruns + 1):
        answer["runs"].append(_one_run(case, graph, observed))


def _one_run(
    case: PeerCase, graph: CalculatorGraph, observed: dict[str, list[Any]]
) -> dict[str, Any]:
    errors: list[str | None] = []
    for step in case.steps:
        try:
            _step(case, graph, step)
            errors.append(None)
        except GraphError as error:
            errors.append(str(error))
            if step[0] == "start":
                break
    sides: dict[str, Any] = {}
    for name in case.produced_side_packets:
        try:
            sides[name] = shown_value(graph.get_output_side_packet(name).value)
        except GraphError:
            sides[name] = None
    seen = {name: list(entries) for name, entries in observed.items()}
    for entries in observed.values():
        entries.clear()
    return {"errors": errors, "observed": seen, "sides": sides}


def _step(case: PeerCase, graph: CalculatorGraph, step: tuple[Any, ...]) -> None:
    name, *rest = step
    if name == "start":
        graph.start_run({key: value for key, (_, value) in case.side_packets.items()})
    elif name == "add":
        stream, _, value, at = rest
        graph.add_packet_to_input_stream(stream, Packet(value, time_of(at)))
    elif name == "bound":
        stream, at = rest
        graph.add_packet_to_input_stream(stream, Packet.empty(time_of(at)))
    elif name == "close":
        graph.close_input_stream(rest[0])
    elif name == "idle":
        graph.wait_until_idle()
    elif name == "close sources":
        graph.close_all_packet_sources()
    elif name == "done":
        graph.wait_until_done()
    else:
        raise KeyError(name)
