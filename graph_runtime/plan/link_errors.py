"""Errors of the links between nodes: MediaPipe's texts, and what would be right."""

from __future__ import annotations

from collections.abc import Iterable

from graph_runtime.authoring.contract import CalculatorContract
from graph_runtime.authoring.packet_type import PacketType
from graph_runtime.errors import Code, GraphConfigError, GraphError, did_you_mean
from graph_runtime.language.tag_map import TagMap, port_label
from graph_runtime.plan.stall_check import sync_set_hint


def no_output_producer(name: str, known: Iterable[str]) -> str:
    """The finding for a graph output that no node writes."""
    known = list(known)
    there = f"; its streams are {', '.join(known)}" if 0 < len(known) <= 12 else ""
    return (
        f'no node makes "{name}", an output_stream of the graph.'
        f"{did_you_mean(name, known) or there}"
    ).replace(".;", ";")


def _type_hint(made: PacketType, wanted: PacketType) -> str:
    return (
        f'hint: connect what carries "{wanted.name}", or put a node between that makes it from '
        f'"{made.name}"'
    )


def no_producer(name: str, place: int, node_name: str, known: Iterable[str]) -> GraphError:
    """The error for a node's input stream that no node or graph input writes."""
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
    """The error for a node on an executor that the graph does not declare."""
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


def check_apart(
    contract: CalculatorContract, inputs: TagMap, groups: list[list[int]] | None
) -> None:
    """Check that an input that the contract sets apart is alone in its group of inputs.

    Raises:
        GraphConfigError: it is waited for together with others.
    """
    for key in contract.apart:
        place = inputs.id_of(*key)
        for group in groups or ():
            if place in group and len(group) > 1:
                others = ", ".join(
                    port_label(*inputs.keys[each]) for each in group if each != place
                )
                raise GraphConfigError(
                    f'node "{contract.node_name}": {contract.config.calculator} waits for its '
                    f"input {port_label(*key)} together with {others}, but packets come on "
                    f"{port_label(*key)} only after it has run: it would never run\n"
                    f"hint: {sync_set_hint(*key)}"
                )
