"""Validation: makes a plan from a config, checks everything once and reports every finding.

Order and texts follow MediaPipe ``framework/validated_graph_config.cc``. MediaPipe stops at the
first error; this validation goes on while further findings still make sense.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any

from graph_runtime.authoring.calculator import Calculator
from graph_runtime.authoring.packet_type import PacketType
from graph_runtime.errors import (
    Code,
    GraphConfigError,
    GraphError,
    NotFoundError,
    ValidationError,
    did_you_mean,
)
from graph_runtime.language.names import canonical_names, debug_name
from graph_runtime.language.tag_map import TagMap, parse_tag_index_name
from graph_runtime.plan.executor_plan import APPLICATION_THREAD, plan_executors
from graph_runtime.plan.link_errors import defined_twice, no_output_producer, no_producer, type_hint
from graph_runtime.plan.node_draft import DUMP, NodeDraft, NodeReader
from graph_runtime.plan.node_order import CycleError, close_loops, topological_order
from graph_runtime.plan.plan import (
    GraphInputPlan,
    GraphWarning,
    InputPlan,
    NodePlan,
    OutputPlan,
    SideInputPlan,
    ValidatedGraph,
)
from graph_runtime.plan.registry import REGISTRY, Registry
from graph_runtime.plan.stall_check import stall_warnings
from graph_runtime.plan.subgraph import expand_subgraphs

DEFAULT_MAX_QUEUE_SIZE = 100


def validate_graph(
    config: Any,
    *,
    registry: Registry | None = None,
    services: Mapping[str, Any] | None = None,
    executors: Collection[str] = (),
    positions: list[str] | None = None,
) -> ValidatedGraph:
    """Check a ``CalculatorGraphConfig`` and make its plan.

    ``services`` are for subgraphs made by functions; ``executors`` names those that the application
    will give the graph; ``positions``: where each top-level node stands (``graph.pbtxt:12``), for
    the findings.

    Raises:
        ValidationError: with every finding.
    """
    return _Validation(config, registry or REGISTRY, services or {}, executors, positions).run()


class _Validation:
    def __init__(
        self,
        config: Any,
        registry: Registry,
        services: Mapping[str, Any],
        provided_executors: Collection[str],
        positions: list[str] | None,
    ) -> None:
        self.given = config
        self.registry = registry
        self.services = services
        self.provided_executors = provided_executors
        self.positions = positions
        self.findings: list[GraphError] = []
        self.warnings: list[GraphWarning] = []
        self.drafts: list[NodeDraft] = []

    def run(self) -> ValidatedGraph:
        try:
            expansion = expand_subgraphs(self.given, self.registry, self.services)
        except GraphError as error:
            raise ValidationError([error]) from error
        config = self.config = expansion.config
        self.origins = expansion.origins
        self.executors = (
            self._try(lambda: plan_executors(config, self.registry, self.provided_executors)) or {}
        )
        self._check_other_parts()
        names = canonical_names(config.node)
        reader = NodeReader(config, self.registry, self.executors, self._report)
        for node, origin, name in zip(config.node, expansion.origins, names, strict=True):
            draft = self._draft(reader, node, origin, name)
            if draft is not None:
                self.drafts.append(draft)
        self.warnings += reader.warnings
        self._read_graph_ports()
        if len(self.drafts) == len(config.node):
            self._link()
        else:
            # Edges of a broken node are unknown, so only their names can be checked.
            self._check_producers()
        if self.findings:
            raise ValidationError(self.findings)
        plan = self._plan()
        self._warn_of_outputs()
        found = (*self.warnings, *stall_warnings(plan), *_unread_warnings(plan))
        return replace(plan, warnings=found)

    # Findings -------------------------------------------------------------------------------------

    def _report(self, error: GraphError, origin: int | None = None) -> None:
        if origin is not None and self.positions is not None and origin < len(self.positions):
            text = str(error).partition(DUMP)[0]  # the place names the node
            located = GraphConfigError(f"{self.positions[origin]}: {text}", code=error.code)
            located.__cause__ = error
            error = located
        self.findings.append(error)

    def _try(self, step: Any) -> Any:
        try:
            return step()
        except ValidationError as error:
            self.findings += error.findings
        except GraphError as error:
            self._report(error)
        return None

    # Nodes ----------------------------------------------------------------------------------------

    def _draft(self, reader: NodeReader, node: Any, origin: int, name: str) -> NodeDraft | None:
        try:
            return reader.read(node, origin, name)
        except GraphError as error:
            self._report(error, origin)
            return None

    def _check_other_parts(self) -> None:
        for generator in self.config.packet_generator:
            self._report(
                NotFoundError(
                    f'Unable to find PacketGenerator "{generator.packet_generator}" (packet '
                    f"generators are not supported: use a calculator with output side packets)"
                )
            )
        for handler in self.config.status_handler:
            found = self.registry.find_status_handler(handler.status_handler, self.config.package)
            if found is None:
                self._report(
                    NotFoundError(f'Unable to find StatusHandler "{handler.status_handler}"')
                )

    # Edges ----------------------------------------------------------------------------------------

    def _read_graph_ports(self) -> None:
        config = self.config
        empty = TagMap(())
        self.graph_inputs = self._try(lambda: TagMap(config.input_stream)) or empty
        self.graph_outputs = self._try(lambda: TagMap(config.output_stream)) or empty
        self.graph_sides = self._try(lambda: TagMap(config.input_side_packet)) or empty
        self.graph_side_outputs = self._try(lambda: TagMap(config.output_side_packet)) or empty

    def _check_producers(self) -> None:
        produced = set(self.graph_inputs.names)
        for node in self.config.node:
            produced.update(_names(node.output_stream))
        names = canonical_names(self.config.node)
        for place, (node, origin) in enumerate(zip(self.config.node, self.origins, strict=True)):
            for stream in _names(node.input_stream):
                if stream not in produced:
                    side = self._side_names()
                    error = no_producer(stream, place, names[place], produced, side)
                    self._report(error, origin)

    def _side_names(self) -> set[str]:
        """Return the names of all side packets, for the error of a stream that is one."""
        made = (name for node in self.config.node for name in _names(node.output_side_packet))
        return {*_names(self.config.input_side_packet), *made}

    def _link(self) -> None:
        close_loops(self.drafts)
        self._sort()
        nodes = self.drafts
        self.producers: dict[str, tuple[int, int]] = {}  # stream -> (node or graph input, output)
        self.graph_input_types = [PacketType.any() for _ in self.graph_inputs.names]
        for place, name in enumerate(self.graph_inputs.names):
            self._produce(name, len(nodes) + place, 0, None)
        for node_id, draft in enumerate(nodes):
            for place, name in enumerate(draft.outputs.names):
                self._produce(name, node_id, place, draft.origin)
        self._link_side_packets()
        self.edges: list[tuple[PacketType, PacketType, str, NodeDraft]] = []
        self.consumers: dict[str, list[tuple[int, int]]] = {}
        available = set(self.graph_inputs.names)
        for node_id, draft in enumerate(nodes):
            types = draft.contract.inputs.in_order()
            for place, name in enumerate(draft.inputs.names):
                producer = self.producers.get(name)
                is_back_edge = place in draft.back_edges
                if producer is None:
                    if is_back_edge:
                        error: GraphError = GraphConfigError(
                            f'Unable to find upstream edge for back edge "{name}" (shouldn\'t '
                            f'have passed validation). (node "{draft.name}")'
                            f"{did_you_mean(name, self.producers)}",
                            code=Code.INTERNAL,
                        )
                    else:
                        side = self._side_names()
                        error = no_producer(name, node_id, draft.name, self.producers, side)
                    self._report(error, draft.origin)
                    continue
                if is_back_edge and name in available:
                    self.warnings.append(
                        GraphWarning(
                            f'back_edge of input stream "{name}" is not needed, its producer comes '
                            f"earlier",
                            draft.name,
                            draft.origin,
                        )
                    )
                self.consumers.setdefault(name, []).append((node_id, place))
                self.edges.append((self._type_of(producer), types[place], name, draft))
            available.update(draft.outputs.names)
        self._resolve_types()

    def _produce(self, name: str, node_id: int, place: int, origin: int | None) -> None:
        if name in self.producers:
            first = self.producers[name][0]
            maker = self.drafts[first].name if first < len(self.drafts) else None
            self._report(defined_twice(name, maker), origin)
        else:
            self.producers[name] = (node_id, place)

    def _type_of(self, producer: tuple[int, int]) -> PacketType:
        node_id, place = producer
        if node_id >= len(self.drafts):
            return self.graph_input_types[node_id - len(self.drafts)]
        return self.drafts[node_id].contract.outputs.in_order()[place]

    def _link_side_packets(self) -> None:
        self.side_producers: dict[str, tuple[int, int]] = {}
        for node_id, draft in enumerate(self.drafts):
            for place, name in enumerate(draft.side_outputs.names):
                if name in self.side_producers:
                    self._report(
                        GraphConfigError(
                            f'Output Side Packet "{name}" defined twice.', code=Code.UNKNOWN
                        ),
                        draft.origin,
                    )
                else:
                    self.side_producers[name] = (node_id, place)
        self.side_types: dict[str, tuple[PacketType, bool]] = {}
        for draft in self.drafts:
            types = draft.contract.input_side_packets.in_order()
            for place, name in enumerate(draft.side_inputs.names):
                wanted = types[place]
                producer = self.side_producers.get(name)
                if producer is None:
                    known = self.side_types.get(name)
                    optional = wanted.is_optional and (known is None or known[1])
                    first = known[0] if known is not None and not known[0].is_any else wanted
                    self.side_types[name] = (first, optional)
                    continue
                made = self.drafts[producer[0]].contract.output_side_packets.in_order()[producer[1]]
                if not made.is_consistent_with(wanted):
                    self._report(
                        GraphConfigError(
                            f'Input side packet "{name}" of Calculator '
                            f'"{debug_name(draft.config)}" expected a packet of type '
                            f'"{wanted.name}" but the connected output side packet will be of '
                            f'type "{made.name}"; it is made by node '
                            f'"{self.drafts[producer[0]].name}"\n{type_hint(made, wanted)}',
                            code=Code.UNKNOWN,
                        ),
                        draft.origin,
                    )
                elif made.is_any and not wanted.is_any:
                    made.narrow(wanted)

    def _resolve_types(self) -> None:
        """Give an Any end the type of the other end, then narrow one-of types."""
        for produced, consumed, _, _ in self.edges:
            if consumed.is_any:
                # Also when both are Any: a type found for one holds for the other.
                consumed.narrow(produced)
            elif produced.is_any:
                produced.narrow(consumed)
        for produced, consumed, _, _ in self.edges:
            if produced.is_one_of and consumed.is_exact and produced.is_consistent_with(consumed):
                produced.narrow(consumed)
            elif consumed.is_one_of and produced.is_exact and produced.is_consistent_with(consumed):
                consumed.narrow(produced)
            else:
                consumed.widen(produced)
        for produced, consumed, name, draft in self.edges:
            if not produced.is_consistent_with(consumed):
                self._report(
                    GraphConfigError(
                        f'Input stream "{name}" of calculator "{debug_name(draft.config)}" expects '
                        f'packets of type "{consumed.name}" but the connected output stream will '
                        f'contain packets of type "{produced.name}"; {self._maker_of(name)}\n'
                        f"{type_hint(produced, consumed)}",
                        code=Code.UNKNOWN,
                    ),
                    draft.origin,
                )

    def _maker_of(self, stream: str) -> str:
        node_id, _ = self.producers[stream]
        if node_id < len(self.drafts):
            return f'it is made by node "{self.drafts[node_id].name}"'
        others = [
            draft.name for _, _, name, draft in self.edges if name == stream and draft is not None
        ]
        return f"it is an input stream of the graph, whose readers are {', '.join(others)}"

    def _warn_of_outputs(self) -> None:
        """Warn of graph outputs, which MediaPipe checks in subgraphs only."""
        if not self.drafts:
            self.warnings.append(GraphWarning("the graph has no nodes, so it does nothing"))
        for name in self.graph_outputs.names:
            if name not in self.producers:
                self.warnings.append(GraphWarning(no_output_producer(name, self.producers)))

    # Order ----------------------------------------------------------------------------------------

    def _sort(self) -> None:
        """Sort producers before consumers; a graph that is in order stays as it is."""
        nodes = self.drafts
        graph_inputs = set(self.graph_inputs.names)
        makers: dict[str, int] = {}
        side_makers: dict[str, int] = {}
        for place, draft in enumerate(nodes):
            for name in draft.outputs.names:
                makers.setdefault(name, place)
            for name in draft.side_outputs.names:
                side_makers.setdefault(name, place)
        before: list[set[int]] = []
        for draft in nodes:
            needed = {
                makers[name]
                for place, name in enumerate(draft.inputs.names)
                if place not in draft.back_edges and name in makers and name not in graph_inputs
            }
            needed |= {side_makers[name] for name in draft.side_inputs.names if name in side_makers}
            before.append(needed)
        try:
            order = topological_order(before)
        except CycleError as error:
            names = ", ".join(nodes[place].name for place in error.places)
            self._report(
                GraphConfigError(
                    "Generator side packet cycle or calculator stream cycle detected in graph: "
                    f"[{names}]\nhint: mark the stream that closes the loop with "
                    "input_stream_info { tag_index: ... back_edge: true }",
                    code=Code.UNKNOWN,
                ),
                nodes[error.places[0]].origin,
            )
            raise ValidationError(self.findings) from None
        self.drafts = [nodes[place] for place in order]

    # Plan -----------------------------------------------------------------------------------------

    def _plan(self) -> ValidatedGraph:
        config = self.config
        ancestors = self._ancestors()
        # As in MediaPipe, a hint raises the bound of the whole graph, even where a negative bound
        # means none: -1 with a hint of 5 gives 5.
        max_queue_size = config.max_queue_size or DEFAULT_MAX_QUEUE_SIZE
        for draft in self.drafts:
            # Also over a negative size, which is no limit: a hint throttles, as in MediaPipe.
            if draft.config.buffer_size_hint > 0:
                max_queue_size = max(max_queue_size, draft.config.buffer_size_hint)
        ordered = [draft.config for draft in self.drafts]
        canonical = type(config)()
        canonical.CopyFrom(config)
        del canonical.node[:]
        canonical.node.extend(ordered)
        nodes = tuple(
            self._node_plan(node_id, draft, ancestors) for node_id, draft in enumerate(self.drafts)
        )
        for node in nodes:
            self._warn_of_single_threads(node)
        executors = self.executors.values()
        return ValidatedGraph(
            config=canonical,
            nodes=nodes,
            graph_inputs=tuple(
                GraphInputPlan(name, tag, index, packet_type, packet_type.checker())
                for (tag, index), name, packet_type in zip(
                    self.graph_inputs.keys,
                    self.graph_inputs.names,
                    self.graph_input_types,
                    strict=True,
                )
            ),
            input_places={name: place for place, name in enumerate(self.graph_inputs.names)},
            consumers={name: tuple(ends) for name, ends in self.consumers.items()},
            producers={name: producer[0] for name, producer in self.producers.items()},
            side_producers=self.side_producers,
            side_packet_types={
                name: (kind.checker() or kind, optional)
                for name, (kind, optional) in self.side_types.items()
            },
            outputs=self.graph_outputs,
            input_side_packets=self.graph_sides,
            output_side_packets=self.graph_side_outputs,
            executors=self.executors,
            max_queue_size=max_queue_size,
            report_deadlock=config.report_deadlock,
            status_handlers=tuple(config.status_handler),
            type=config.type,
            requests_services=any(node.service_requests for node in nodes),
            has_threads=any(each.type and each.type != APPLICATION_THREAD for each in executors),
            idle_nodes=tuple(
                node_id
                for node_id, draft in enumerate(self.drafts)
                if draft.calculator.on_idle is not Calculator.on_idle
            ),
        )

    def _warn_of_single_threads(self, node: NodePlan) -> None:
        """Warn of a node that may be called several times at once and has one thread for it.

        MediaPipe's default executor is a pool; here a graph says that it wants one.
        """
        executor = self.executors[node.executor]
        is_pool = executor.type not in ("", APPLICATION_THREAD) and executor.num_threads != 1
        if node.max_in_flight > 1 and not node.is_awaited and not is_pool:
            self.warnings.append(
                GraphWarning(
                    f"max_in_flight: {node.max_in_flight} has no effect: its calls are made by one "
                    f"thread",
                    node.name,
                    node.origin,
                    f"give the graph num_threads: {node.max_in_flight}, or the node an executor of "
                    f"several threads",
                )
            )

    def _node_plan(
        self, node_id: int, draft: NodeDraft, ancestors: list[tuple[int, ...]]
    ) -> NodePlan:
        contract = draft.contract
        input_types = contract.inputs.in_order()
        output_types = contract.outputs.in_order()
        side_types = contract.input_side_packets.in_order()
        input_plans = []
        for place, name in enumerate(draft.inputs.names):
            producer = self.producers[name]
            made = self._type_of(producer)
            # The producer's end has checked the packet already.
            same = made.root() is input_types[place].root() or (
                made.is_exact
                and input_types[place].is_exact
                and made.root().types == input_types[place].root().types
            )
            maker = producer[0]
            input_plans.append(
                InputPlan(
                    name,
                    None if same else input_types[place].checker(),
                    place in draft.back_edges,
                    (maker,) if maker >= len(self.drafts) else ancestors[maker],
                )
            )
        return NodePlan(
            node_id=node_id,
            name=draft.name,
            debug_name=debug_name(draft.config),
            calculator_type=draft.config.calculator,
            calculator_class=draft.calculator,
            config=draft.config,
            inputs=draft.inputs,
            outputs=draft.outputs,
            input_side_packets=draft.side_inputs,
            output_side_packets=draft.side_outputs,
            input_plans=tuple(input_plans),
            output_plans=tuple(
                OutputPlan(name, packet_type.checker())
                for name, packet_type in zip(draft.outputs.names, output_types, strict=True)
            ),
            side_input_plans=tuple(
                self._side_input_plan(name, packet_type)
                for name, packet_type in zip(draft.side_inputs.names, side_types, strict=True)
            ),
            side_output_checkers=tuple(
                packet_type.checker() for packet_type in contract.output_side_packets.in_order()
            ),
            input_types=tuple(input_types),
            output_types=tuple(output_types),
            timestamp_offset=contract.timestamp_offset,
            process_timestamp_bounds=contract.process_timestamp_bounds,
            handler_name=draft.handler_name,
            handler_class=draft.handler,
            handler_settings=draft.handler_settings,
            options=draft.options,
            service_requests=contract.service_requests,
            executor=draft.config.executor,
            # A negative number is a node that never runs, as in MediaPipe.
            max_in_flight=draft.config.max_in_flight or 1,
            is_awaited=iscoroutinefunction(draft.calculator.process)
            or iscoroutinefunction(draft.calculator.on_idle)
            or iscoroutinefunction(draft.calculator.close),
            is_source=draft.is_source,
            source_layer=draft.config.source_layer,
            origin=draft.origin,
        )

    def _side_input_plan(self, name: str, wanted: PacketType) -> SideInputPlan:
        producer = self.side_producers.get(name)
        if producer is None:
            made = self.side_types[name][0]
        else:
            made = self.drafts[producer[0]].contract.output_side_packets.in_order()[producer[1]]
        checker = None if made.root() is wanted.root() else wanted.checker()
        return SideInputPlan(name, wanted, checker, producer[0] if producer else None)

    def _ancestors(self) -> list[tuple[int, ...]]:
        """Per node, the sources and graph inputs upstream of it over forward edges."""
        found: list[tuple[int, ...]] = []
        for node_id, draft in enumerate(self.drafts):
            if draft.is_source:
                found.append((node_id,))
                continue
            above: set[int] = set()
            last: tuple[int, ...] = ()
            for place, name in enumerate(draft.inputs.names):
                maker = self.producers[name][0]
                if place in draft.back_edges:
                    continue
                last = (maker,) if maker >= len(self.drafts) else found[maker]
                above.update(last)
            # Long chains share one tuple.
            found.append(last if len(last) == len(above) else tuple(sorted(above)))
        return found


def _names(entries: Any) -> list[str]:
    names = []
    for entry in entries:
        try:
            names.append(parse_tag_index_name(entry).name)
        except GraphConfigError:
            continue  # reported with its node
    return names


def _unread_warnings(plan: ValidatedGraph) -> Iterator[GraphWarning]:
    """Warn of streams whose packets must be read and have no reader.

    A type of packets demands a reader by its class attribute ``must_be_read``. A graph without
    outputs is left out: observers may read its streams.
    """
    if not plan.outputs.names:
        return
    read = {*plan.consumers, *plan.outputs.names}
    for node in plan.nodes:
        for name, kind in zip(node.outputs.names, node.output_types, strict=True):
            if name not in read and _must_be_read(kind):
                yield _unread_warning(plan, node, name, kind)


def _must_be_read(kind: PacketType) -> bool:
    return any(getattr(each, "must_be_read", False) for each in kind.root().types)


def _unread_warning(
    plan: ValidatedGraph, node: NodePlan, name: str, kind: PacketType
) -> GraphWarning:
    wanted = kind.root().types
    for source, each in zip(node.inputs.names, node.input_types, strict=True):
        others = [
            plan.nodes[reader].name
            for reader, _ in plan.consumers[source]
            if reader != node.node_id and each.root().types == wanted
        ]
        if others:
            return GraphWarning(
                f'makes "{name}" of "{source}", but nobody reads "{name}": node "{others[0]}" '
                f'reads "{source}", past this node',
                node.name,
                node.origin,
                f'let node "{others[0]}" read "{name}"',
            )
    return GraphWarning(
        f'sends "{name}", and nobody reads it',
        node.name,
        node.origin,
        "connect it, or leave out the node",
        is_mistake=True,
    )
