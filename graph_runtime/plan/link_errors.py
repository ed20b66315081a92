"""Errors of the links between nodes: MediaPipe's texts, and what would be right."""

from __future__ import annotations

from collections.abc import Iterable

from graph_runtime.authoring.contract import CalculatorContract
from graph_runtime.authoring.packet_type import PacketType
from graph_runtime.errors import Code, GraphConfigError, GraphError, did_you_mean
from graph_runtime.language.tag_map import TagMap, port_label
from graph_runtime.plan.stall_check import sync_set_hint


def no_output_producer(name: str, known: Iterable[str]) -> str:
    """Return the finding for a graph output that no node writes."""
    known = list(known)
    there = f"; its streams are {', '.join(known)}" if 0 < len(known) <= 12 else ""
    return (
        f'no node makes "{name}", an output_stream of the graph.'
        f"{did_you_mean(name, known) or there}"
    ).replace(".;", ";")


def no_producer(
    name: str, place: int, node_name: str, known: Iterable[str], side_packets: Iterable[str] = ()
) -> GraphError:
    """Return the error for a node's input stream that no node or graph input writes."""
    if name in side_packets:
        remedy = f' "{name}" is a side packet: write input_side_packet: "TAG:{name}".'
    else:
        remedy = did_you_mean(name, known) or " Neither a node nor the graph makes it."
    return GraphConfigError(
        f'Input Stream "{name}" for node with sorted index {place} name {node_name} does not have '
        f"a corresponding output stream.{remedy}",
        code=Code.UNKNOWN,
    )


def defined_twice(name: str, maker: str | None) -> GraphError:
    """The error for a stream with two writers; ``maker``: the first node, None for the graph."""
    first = "It is an input stream of the graph" if maker is None else f'Node "{maker}" makes it'
    return GraphConfigError(
        f'Output Stream "{name}" defined twice. {first} too: give one of them another name.',
        code=Code.UNKNOWN,
    )


def undeclared_executor(executor: str, node_name: str, known: Iterable[str]) -> GraphError:
    """Return the error for a node on an executor that the graph does not declare."""
    declaration = (
        f'executor {{ name: "{executor}" type: "ThreadPoolExecutor" options {{ '
        f"[mediapipe.ThreadPoolExecutorOptions.ext] {{ num_threads: 2 }} }} }}"
    )
    remedy = did_you_mean(executor, known) or f" Write {declaration} in the graph."
    return GraphConfigError(
        f'The executor "{executor}" is not declared in an ExecutorConfig. (node "{node_name}")'
        f"{remedy}"
    )


def type_hint(made: PacketType, wanted: PacketType) -> str:
    """A hint for an edge where one type is made and another is wanted."""
    return (
        f'hint: connect what carries "{wanted.name}", or put a node between that makes it from '
        f'"{made.name}"'
    )


def check_sync_sets(
    contract: CalculatorContract,
    inputs: TagMap,
    groups: list[list[int]] | None,
    sync_sets: list[list[int]],
) -> None:
    """Check that the handler waits for no inputs together that the contract keeps apart.

    ``groups``: the inputs that a call waits for together; None if only the run knows them.

    Raises:
        GraphConfigError: it would.
    """
    set_of = {place: number for number, group in enumerate(sync_sets) for place in group}
    alone = {inputs.id_of(*key) for key in contract.apart}
    for group in groups or ():
        for place in sorted(group, key=lambda each: set_of.get(each, 0)):
            others = [
                each
                for each in group
                if each != place and (place in alone or set_of.get(each) != set_of.get(place))
            ]
            if others:
                raise _waits_for_too_much(contract, inputs, place, others)


def _waits_for_too_much(
    contract: CalculatorContract, inputs: TagMap, place: int, others: list[int]
) -> GraphConfigError:
    key = inputs.keys[place]
    label = port_label(*key)
    rest = ", ".join(port_label(*inputs.keys[each]) for each in others)
    node = f'node "{contract.node_name}": {contract.config.calculator}'
    if inputs.keys[place] in contract.apart:
        return GraphConfigError(
            f"{node} waits for its input {label} together with {rest}, but packets come on "
            f"{label} only after it has run: it would never run\nhint: {sync_set_hint(*key)}"
        )
    return GraphConfigError(
        f"{node} takes what comes on {label} without waiting for {rest}, and the input stream "
        f"handler that the graph names waits for both\nhint: leave out the input_stream_handler of "
        f"the graph, or give the node one that keeps them apart: {sync_set_hint(*key)}"
    )
