"""Reading of single nodes: calculator, contract, ports, input stream handler and options.

Texts follow MediaPipe ``framework/validated_graph_config.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from graph_runtime.authoring.calculator import Calculator, options_of
from graph_runtime.authoring.contract import CalculatorContract, options_of_node, split_key
from graph_runtime.errors import (
    Code,
    GraphConfigError,
    GraphError,
    NotFoundError,
    did_you_mean,
    reason_of,
)
from graph_runtime.language.tag_map import TagMap, parse_tag_index
from graph_runtime.plan.link_errors import check_sync_sets, undeclared_executor
from graph_runtime.plan.plan import GraphWarning
from graph_runtime.plan.registry import Registry, unknown_calculator
from graph_runtime.streams.input_handlers.handler import InputStreamHandler
from graph_runtime.streams.input_handlers.policies import DefaultInputStreamHandler, Settings
from graph_runtime.streams.input_handlers.sync_set import SyncSetInputStreamHandler, places_of
from graphrt_base.interrupts import raise_interrupt

DEFAULT_HANDLER = "DefaultInputStreamHandler"
SYNC_SET_HANDLER = "SyncSetInputStreamHandler"
OUTPUT_HANDLER = "InOrderOutputStreamHandler"
#: Begins the text of a node at the end of a message.
DUMP = "\nFor calculator:\n"


@dataclass
class NodeDraft:
    """A node whose own parts are checked, and its edges not yet.

    Attributes:
        loose_inputs: inputs that the contract puts into a sync set of their own, and of which the
            graph does not say ``back_edge``. One that closes a loop becomes a back edge.
    """

    config: Any
    origin: int
    name: str
    calculator: type[Calculator]
    inputs: TagMap
    outputs: TagMap
    side_inputs: TagMap
    side_outputs: TagMap
    contract: CalculatorContract
    back_edges: frozenset[int]
    loose_inputs: frozenset[int]
    handler: type[InputStreamHandler]
    handler_name: str
    handler_settings: Any
    options: tuple[Any, ...]

    @property
    def is_source(self) -> bool:
        """True if the node has no inputs and at least one output."""
        return not len(self.inputs) and bool(len(self.outputs))


class NodeReader:
    """Checks the nodes of one graph, one by one.

    Attributes:
        warnings: of the nodes read so far.
    """

    def __init__(
        self,
        config: Any,
        registry: Registry,
        executors: Collection[str],
        report: Callable[[GraphError, int], None],
    ) -> None:
        """``report`` takes errors that leave a node readable, each with the node's origin."""
        self._config = config
        self._registry = registry
        self._executors = executors
        self._report = report
        self.warnings: list[GraphWarning] = []

    def read(self, node: Any, origin: int, name: str) -> NodeDraft:
        """Check one node of the config. ``name``: its canonical one.

        Raises:
            GraphError: it is wrong in itself.
        """
        calculator = self._registry.find_calculator(node.calculator, self._config.package)
        try:
            inputs, outputs, side_inputs, side_outputs = _tag_maps(node)
            back_edges = _back_edges(node, inputs)
        except GraphError as error:
            if calculator is not None:
                raise
            self._report(error, origin)
            raise unknown_calculator(node.calculator, self._registry) from None
        if calculator is None:
            raise unknown_calculator(node.calculator, self._registry)
        contract = CalculatorContract(name, node, inputs, outputs, side_inputs, side_outputs)
        where = "" if name == node.calculator else f' (node "{name}")'
        try:
            calculator.contract(contract)
        except GraphError as error:
            raise GraphConfigError(f"{node.calculator}: {error}{where}", code=error.code) from error
        except BaseException as error:
            raise_interrupt(error)
            raise GraphConfigError(
                f"{node.calculator}: its contract failed: {reason_of(error)}{where}",
                code=Code.INTERNAL,
            ) from error
        problems = contract.problems()
        if problems:
            raise GraphConfigError(
                f"{node.calculator}::GetContract failed to validate: \n" + "\n".join(problems)
            )
        sync_sets: list[list[int]] = []
        if contract.sync_sets:
            keys = [[split_key(key) for key in group] for group in contract.sync_sets]
            sync_sets = places_of(inputs, keys)
        handler_name, handler, settings = self._handler(node, contract, inputs, sync_sets, origin)
        if node.executor and node.executor not in self._executors:
            self._report(undeclared_executor(node.executor, name, self._executors), origin)
        alone = {group[0] for group in sync_sets if len(group) == 1}
        return NodeDraft(
            node,
            origin,
            name,
            calculator,
            inputs,
            outputs,
            side_inputs,
            side_outputs,
            contract,
            back_edges,
            frozenset(alone - back_edges),
            handler,
            handler_name,
            settings,
            tuple(
                (descriptor, options_of_node(node, descriptor.options_type))
                for descriptor in options_of(calculator)
            ),
        )

    def _handler(
        self,
        node: Any,
        contract: CalculatorContract,
        inputs: TagMap,
        sync_sets: list[list[int]],
        origin: int,
    ) -> tuple[str, type[InputStreamHandler], Any]:
        """Choose the handler that the node names, or else the graph; else the contract's.

        Settings without a name are for the default handler, where the contract has none.
        """
        wanted = name = contract.input_stream_handler
        options = contract.input_stream_handler_options
        is_own = node.HasField("input_stream_handler")
        given = (node if is_own else self._config).input_stream_handler
        is_named = given.HasField("input_stream_handler")
        if not name and not is_named and sync_sets:
            return SYNC_SET_HANDLER, SyncSetInputStreamHandler, sync_sets
        # MediaPipe copies the graph's handler into every node without one, also over the
        # contract's.
        if is_named or not name:
            name = given.input_stream_handler or DEFAULT_HANDLER
            options = given.options if given.HasField("options") else None
        handler = self._registry.find_input_stream_handler(name, self._config.package)
        if handler is None:
            raise NotFoundError(
                "CalculatorGraph::InitializeCalculatorNodes failed: No registered object with "
                f'name: {name}; "{name}" is not a registered input stream handler.'
                f"{did_you_mean(name, self._registry.input_stream_handlers())} "
                f'(node "{contract.node_name}")'
            )
        sender = node.output_stream_handler.output_stream_handler
        if sender not in ("", OUTPUT_HANDLER):
            raise NotFoundError(
                "CalculatorGraph::InitializeCalculatorNodes failed: No registered object with "
                f'name: {sender}; "{sender}" is not a registered output stream handler; the only '
                f'one is {OUTPUT_HANDLER} (node "{contract.node_name}")'
            )
        if len(inputs) == 0:
            return name, DefaultInputStreamHandler, Settings()
        try:
            settings = handler.prepare(inputs, options, max(1, node.max_in_flight))
        except GraphConfigError as error:
            raise GraphConfigError(
                f'node "{contract.node_name}": {error}', code=error.code
            ) from error
        if wanted and name != wanted and not is_own:  # a node's own handler is intentional
            self.warnings.append(
                GraphWarning(
                    f"{node.calculator} is written for {wanted}, and the input_stream_handler of "
                    f"the graph makes it {name}",
                    contract.node_name,
                    origin,
                    f'give the node input_stream_handler {{ input_stream_handler: "{wanted}" }}',
                )
            )
        groups = handler.sync_groups(len(inputs), settings)
        check_sync_sets(contract, inputs, groups, sync_sets)
        return name, handler, settings


def _tag_maps(node: Any) -> list[TagMap]:
    maps, problems = [], []
    code = Code.INVALID_ARGUMENT
    for field in ("input_stream", "output_stream", "input_side_packet", "output_side_packet"):
        try:
            maps.append(TagMap(getattr(node, field)))
        except GraphConfigError as error:
            problems.append(f"{field}: {error}")
            code = error.code
    if problems:
        raise GraphConfigError(
            "Unable to initialize TagMaps for node.\n"
            + "\n".join(problems)
            + f"{DUMP}{str(node)[:2000]}",
            code=code,
        )
    return maps


def _back_edges(node: Any, inputs: TagMap) -> frozenset[int]:
    places: dict[int, bool] = {}
    for info in node.input_stream_info:
        place = inputs.id_of(*parse_tag_index(info.tag_index))
        if place < 0:
            raise GraphConfigError(
                f'Input stream with tag_index "{info.tag_index}" requested in InputStreamInfo but '
                f"is not an input stream of the calculator. (node {node.name or node.calculator}: "
                f"{', '.join(inputs.entries())})"
            )
        if place in places:
            raise GraphConfigError(
                f'Input stream with tag_index "{info.tag_index}" has more than one '
                f"InputStreamInfo. (node {node.name or node.calculator})"
            )
        places[place] = info.back_edge
    return frozenset(place for place, is_back in places.items() if is_back)
