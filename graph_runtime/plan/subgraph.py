"""Subgraphs: graphs as node types, replaced by their nodes before anything is checked.

Streams are connected by tag and index, not by name. Inner names get the name of the outer node as
prefix. Source: MediaPipe ``framework/tool/subgraph_expansion.cc``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, overload

from graph_runtime.authoring.contract import options_of_node
from graph_runtime.errors import Code, GraphConfigError, GraphError, reason_of
from graph_runtime.language.graph_config import parse_graph_text
from graph_runtime.language.names import canonical_names
from graph_runtime.language.tag_map import TagMap, parse_tag_index_name
from graph_runtime.options.option_value import copy_option_values
from graphrt_base.interrupts import raise_interrupt

T = TypeVar("T")

#: Expansions inside one another; deeper means that a subgraph contains itself.
MAX_DEPTH = 100
#: Nodes after expansion; a few doublings reach any number.
MAX_NODES = 20_000

_STREAM_FIELDS = ("input_stream", "output_stream")
_SIDE_FIELDS = ("input_side_packet", "output_side_packet")


@dataclass(frozen=True)
class SubgraphContext:
    """Input of a function that makes a subgraph: the subgraph node, and the graph's services."""

    node: Any
    services: Mapping[str, Any] = field(default_factory=dict)

    @overload
    def options(self, options_type: type[T]) -> T: ...
    @overload
    def options(self, options_type: str) -> Any: ...
    def options(self, options_type: Any) -> Any:
        """Return the node's options by class, or by the full name of a message type."""
        return options_of_node(self.node, options_type)


@dataclass(frozen=True)
class Subgraph:
    """One registered subgraph. ``make`` gives a fresh ``CalculatorGraphConfig``."""

    name: str
    make: Callable[[SubgraphContext], Any]
    #: False for a function, which may make a graph of its own type if the recursion ends.
    is_fixed: bool = True
    doc: str = ""

    @staticmethod
    def of(graph: Any, name: str | None = None) -> Subgraph:
        """Make a subgraph from a config message, text, or a function of a `SubgraphContext`."""
        if callable(graph):
            if not name:
                raise GraphConfigError("a subgraph made by a function needs a name")
            source = name
            return Subgraph(
                name,
                lambda context: _as_config(graph(context), source),
                False,
                inspect.getdoc(graph) or "",
            )
        config = _as_config(graph, name or "<subgraph>")
        name = name or config.type
        if not name:
            raise GraphConfigError(
                'a subgraph needs a name: set its "type", or register it under one'
            )
        return Subgraph(name, lambda context: _copy(config))


def _as_config(graph: Any, name: str) -> Any:
    if isinstance(graph, str):
        return parse_graph_text(graph, source=name)
    descriptor = getattr(graph, "DESCRIPTOR", None)
    if descriptor is None or descriptor.full_name != "mediapipe.CalculatorGraphConfig":
        raise GraphConfigError(
            f'Subgraph "{name}" is neither text nor a mediapipe.CalculatorGraphConfig but '
            f"{type(graph).__name__}"
        )
    return graph


def _copy(config: Any) -> Any:
    copy = type(config)()
    copy.CopyFrom(config)
    return copy


class SubgraphSource(Protocol):
    """The part of a registry that expansion needs."""

    def find_subgraph(self, name: str, package: str = "") -> Subgraph | None:
        """Return the subgraph that a node type names, looked up from ``package`` outwards."""


@dataclass
class Expansion:
    """A config without subgraphs, and for each node the place of the node it came from."""

    config: Any
    origins: list[int]


def expand_subgraphs(
    config: Any, registry: SubgraphSource, services: Mapping[str, Any] | None = None
) -> Expansion:
    """Replace subgraph nodes until none is left, and evaluate ``option_value``.

    Plain nodes keep their order; the nodes of subgraphs are appended.

    Raises:
        GraphConfigError: a subgraph contains itself, or its node has fields or ports that it lacks.
    """
    config = _copy(config)
    _evaluate_option_values(config, None)
    nodes: list[tuple[Any, int, tuple[str, ...]]] = [
        (node, place, ()) for place, node in enumerate(config.node)
    ]
    found_any = False
    while True:
        names = canonical_names(node for node, _, _ in nodes)
        kept: list[tuple[Any, int, tuple[str, ...]]] = []
        expanded: list[tuple[Any, int, tuple[str, ...]]] = []
        for (node, origin, path), name in zip(nodes, names, strict=True):
            subgraph = registry.find_subgraph(node.calculator, config.package)
            if subgraph is None:
                kept.append((node, origin, path))
                continue
            if subgraph.is_fixed and subgraph.name in path:
                loop = " -> ".join((*path[path.index(subgraph.name) :], subgraph.name))
                raise GraphConfigError(f"subgraph {subgraph.name} contains itself: {loop}")
            if len(path) >= MAX_DEPTH or len(kept) + len(expanded) > MAX_NODES:
                raise GraphConfigError(
                    f"subgraphs of {config.node[origin].calculator} expand to more than "
                    f"{MAX_NODES} nodes or {MAX_DEPTH} levels"
                )
            inner = _expand_one(node, name, subgraph, services or {})
            inside = (*path, subgraph.name)
            expanded += [(inner_node, origin, inside) for inner_node in inner.node]
        if not expanded and len(kept) == len(nodes):
            break
        found_any = True
        nodes = kept + expanded
    if found_any:
        new_nodes = [_copy(node) for node, _, _ in nodes]
        del config.node[:]
        config.node.extend(new_nodes)
    return Expansion(config, [origin for _, origin, _ in nodes])


def _expand_one(node: Any, name: str, subgraph: Subgraph, services: Mapping[str, Any]) -> Any:
    """Return the config of one subgraph node, with names prefixed and connected."""
    if (
        node.source_layer
        or node.buffer_size_hint
        or node.HasField("output_stream_handler")
        or node.input_stream_info
    ):
        raise GraphConfigError(
            f'Subgraph "{node.name or node.calculator}" has a field that is only applicable to '
            "calculators."
        )
    try:
        inner = subgraph.make(SubgraphContext(node, services))
    except GraphError:
        raise
    except BaseException as error:
        raise_interrupt(error)
        raise GraphConfigError(
            f'Subgraph "{subgraph.name}" could not be made: {reason_of(error)}'
        ) from error
    if inner.packet_factory:
        raise GraphConfigError(
            f'Subgraph "{subgraph.name}" has a packet_factory, which is not supported',
            code=Code.INTERNAL,
        )
    _evaluate_option_values(inner, node)
    prefix = _prefix(name)
    _prefix_names(inner, prefix)
    _connect(node, inner)
    return inner


def _prefix(name: str) -> str:
    return "".join("_" if char in ". :" else char for char in name.lower()) + "__"


def _evaluate_option_values(config: Any, parent: Any) -> None:
    for node in config.node:
        if node.option_value:
            node.CopyFrom(copy_option_values(node, config, parent))


def _prefix_names(inner: Any, prefix: str) -> None:
    """Prefix every node, stream and side packet of the subgraph with the outer node's name."""
    names = canonical_names(inner.node)
    for inner_node, name in zip(inner.node, names, strict=True):
        inner_node.name = prefix + name
    for part in (*inner.node, *inner.packet_generator, *inner.status_handler, inner):
        for field_name in (*_STREAM_FIELDS, *_SIDE_FIELDS):
            _rename(getattr(part, field_name, ()), prefix)


def _rename(entries: Any, change: str | Mapping[str, str]) -> None:
    """Prefix the names of ``TAG:index:name`` entries, or look them up."""
    for place, text in enumerate(entries):
        name = parse_tag_index_name(text).name
        new = change + name if isinstance(change, str) else change.get(name, name)
        entries[place] = text[: len(text) - len(name)] + new


def _connect(node: Any, inner: Any) -> None:
    """Give the subgraph's own ports the names of the outer streams."""
    # A stream and a side packet may have the same name, so each kind has its own table.
    for fields, what in ((_STREAM_FIELDS, "streams"), (_SIDE_FIELDS, "side packets")):
        renamed: dict[str, str] = {}
        dropped: set[str] = set()
        for field_name in fields:
            kind = f"{field_name.split('_')[0]} {what}"
            outer = TagMap(getattr(node, field_name))
            own = TagMap(getattr(inner, field_name))
            _check_ports(node, outer, own, kind)
            for key, inner_name in zip(own.keys, own.names, strict=True):
                outer_name = outer.name_of(*key)
                if outer_name is not None:
                    renamed[inner_name] = outer_name
                # An optional input that the graph leaves out is no port of the inner nodes either.
                elif field_name.startswith("input"):
                    dropped.add(inner_name)
        for part in (*inner.node, *inner.packet_generator, *inner.status_handler):
            for field_name in fields:
                entries = getattr(part, field_name, ())
                if dropped and field_name.startswith("input"):
                    _drop(entries, dropped)
                _rename(entries, renamed)


def _drop(entries: Any, names: set[str]) -> None:
    """Remove the inputs that the outer node leaves out."""
    kept = [entry for entry in entries if parse_tag_index_name(entry).name not in names]
    if len(kept) != len(entries):
        del entries[:]
        entries.extend(kept)


def _check_ports(node: Any, outer: TagMap, own: TagMap, kind: str) -> None:
    where = f"while processing the {kind} of subgraph node {node.calculator}:"
    for tag in outer.tags():
        given, known = outer.num_entries(tag), own.num_entries(tag)
        if not known:
            raise GraphConfigError(f'{where} Tag "{tag}" does not exist in the subgraph config.')
        if given > known:
            raise GraphConfigError(
                f'{where} Tag "{tag}" has {given} indexes in the subgraph node but has only '
                f"{known} indexes in the subgraph config."
            )
