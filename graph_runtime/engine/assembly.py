"""Assembly of a run: make nodes, streams and queues from the plan, hand out side packets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from graph_runtime.authoring.context import OutputSidePacket
from graph_runtime.authoring.executor import (
    ApplicationThreadExecutor,
    Executor,
    ThreadPoolExecutor,
    automatic_num_threads,
)
from graph_runtime.engine.drivers.on_asyncio import AsyncioDriver
from graph_runtime.engine.drivers.sync import SyncDriver
from graph_runtime.engine.node import Node
from graph_runtime.engine.ready_queue import ReadyQueue
from graph_runtime.engine.run import Run
from graph_runtime.engine.scheduler import Scheduler
from graph_runtime.errors import (
    CalculatorError,
    Code,
    GraphError,
    PacketTypeError,
    RunError,
    reason_of,
)
from graph_runtime.packet import Packet
from graph_runtime.plan.executor_plan import APPLICATION_THREAD, THREAD_POOL
from graph_runtime.streams.input_stream import InputStream
from graph_runtime.streams.output_stream import OutputStream, StreamObserver
from graphrt_base.interrupts import raise_interrupt

if TYPE_CHECKING:
    from graph_runtime.engine.run_setup import RunSetup
    from graph_runtime.plan.plan import ExecutorPlan, NodePlan, ValidatedGraph


def make_run(
    setup: RunSetup,
    lock: threading.Lock,
    side_packets: Mapping[str, Any],
    headers: Mapping[str, Any],
    *,
    is_async: bool,
) -> Run:
    """Make the nodes and streams of a run, and hand out the side packets.

    ``side_packets`` and ``headers``: values or packets by name, the headers of graph inputs.

    Raises:
        RunError: side packets or services are missing or wrong.
    """
    plan = setup.plan
    given = {}
    for name, value in side_packets.items():
        given[name] = value if isinstance(value, Packet) else Packet(value)
    if given or plan.side_packet_types:
        _check_side_packets(plan, given)
    services = setup.services
    # The plan knows: without services a run makes no call for them (decision 0048).
    if plan.requests_services:
        _complete_services(plan, services, setup.allows_default_services)

    driver, queues, pools = _make_queues(setup, lock, is_async)
    streams, graph_inputs, outputs = _make_streams(plan)
    side_outputs: dict[str, OutputSidePacket] = {}
    consumers: dict[str, list[tuple[Node, int]]] = {}

    def on_side_packet(side: OutputSidePacket) -> None:
        waiting = consumers.get(side.name)
        if waiting:
            with lock:
                scheduler.output_side_packet_set(side, waiting)

    nodes: list[Node] = []
    for node_plan, outputs_of_node in zip(plan.nodes, outputs, strict=True):
        sides = []
        if node_plan.side_output_checkers:
            sides = _make_side_outputs(node_plan, on_side_packet)
            for side in sides:
                side_outputs[side.name] = side
        queue = queues[node_plan.executor]
        inputs = _make_inputs(node_plan, streams, setup.stream_limits, plan.max_queue_size)
        try:
            node = Node(node_plan, inputs, outputs_of_node, sides, queue, services, setup.counters)
        except BaseException as error:
            raise_interrupt(error)
            failure = CalculatorError(node_plan.name, "__init__", reason_of(error))
            failure.__cause__ = error
            raise RunError([failure]) from error
        queue.nodes[node.key] = node
        nodes.append(node)
    for name, poller in setup.pollers:
        producer = plan.producers[name]
        throttles = (producer,) if producer >= len(plan.nodes) else _throttles_of(plan, producer)
        streams[name].mirrors.append(poller.prepare_run(streams[name], throttles))
    for name, callback, observes_bounds in setup.observers:
        streams[name].observers.append(StreamObserver(name, callback, observes_bounds))
    for name, header in headers.items():
        if name in streams:
            streams[name].header = header if isinstance(header, Packet) else Packet(header)

    # The driver's own queue is always there, also when every node is in a pool.
    all_queues = [driver.queue]
    for queue, _ in pools.values():
        all_queues.append(queue)
    scheduler = Scheduler(plan, nodes, all_queues, graph_inputs, setup.constants, setup.on_error)
    for node in nodes:
        for place, side_plan in enumerate(node.plan.side_input_plans):
            if side_plan.producer is not None:
                consumers.setdefault(side_plan.name, []).append((node, place))
            elif side_plan.name in given:
                scheduler.side_packet_arrived(node, place, given[side_plan.name])
            else:
                node.missing -= 1  # optional and left out
    driver.attach(scheduler, pools)
    run = Run(
        plan,
        lock,
        scheduler,
        driver,
        graph_inputs,
        streams,
        side_outputs,
        given,
        setup.registry,
    )
    for _, poller in setup.pollers:
        poller.start_run(run)
    if plan.status_handlers:
        for problem in run.call_status_handlers("PRE_RUN", None):
            scheduler.log.record(problem)
    if scheduler.errors:
        raise RunError(scheduler.errors)
    return run


def _make_streams(
    plan: ValidatedGraph,
) -> tuple[dict[str, OutputStream], list[OutputStream], list[list[OutputStream]]]:
    """Return all streams by name, then the graph's inputs and each node's outputs in order."""
    streams = {}
    graph_inputs = []
    for graph_input in plan.graph_inputs:
        stream = OutputStream(graph_input.name, graph_input.checker, None)
        streams[graph_input.name] = stream
        graph_inputs.append(stream)
    outputs = []
    for node in plan.nodes:
        outputs_of_node = []
        for output in node.output_plans:
            stream = OutputStream(output.stream, output.checker, node.timestamp_offset)
            streams[output.stream] = stream
            outputs_of_node.append(stream)
        outputs.append(outputs_of_node)
    return streams, graph_inputs, outputs


def _make_inputs(
    node: NodePlan, streams: Mapping[str, OutputStream], limits: Mapping[str, int], limit: int
) -> list[InputStream]:
    """The receiving ends of a node. ``limit`` applies to queues without an entry in ``limits``."""
    inputs = []
    for place, plan in enumerate(node.input_plans):
        source = streams[plan.stream]
        stream = InputStream(
            source,
            None,
            place,
            plan.checker,
            plan.is_back_edge,
            limits.get(plan.stream, limit),
            plan.throttles,
        )
        inputs.append(stream)
        source.mirrors.append(stream)
    return inputs


def _make_side_outputs(
    node: NodePlan, on_set: Callable[[OutputSidePacket], None]
) -> list[OutputSidePacket]:
    names, checkers = node.output_side_packets.names, node.side_output_checkers
    return [
        OutputSidePacket(name, checker, on_set)
        for name, checker in zip(names, checkers, strict=True)
    ]


def _throttles_of(plan: ValidatedGraph, producer: int) -> tuple[int, ...]:
    node = plan.nodes[producer]
    if node.is_source:
        return (producer,)
    found: set[int] = set()
    for input_plan in node.input_plans:
        if not input_plan.is_back_edge:
            found.update(input_plan.throttles)
    return tuple(sorted(found))


def _check_side_packets(plan: ValidatedGraph, given: Mapping[str, Packet]) -> None:
    errors: list[GraphError] = []
    missing = []
    for name, (_, optional) in plan.side_packet_types.items():
        if not optional and name not in given:
            missing.append(f'Side packet "{name}" is required but was not provided.')
    if missing:
        errors.append(
            GraphError(
                "ValidateRequiredSidePackets failed to validate: \n" + "\n".join(missing),
                code=Code.INVALID_ARGUMENT,
            )
        )
    for name, packet in given.items():
        if name in plan.side_producers:
            errors.append(
                GraphError(
                    f'Side packet "{name}" is both provided and generated by a PacketGenerator.'
                )
            )
        elif name in plan.side_packet_types:
            kind = plan.side_packet_types[name][0]
            # One comparison for the usual case, without a call for each side packet of a request
            # (decision 0048).
            if type(packet.payload) is kind.quick:
                continue
            try:
                kind.validate(packet.payload)
            except PacketTypeError as error:
                errors.append(PacketTypeError(f'Side packet "{name}" failed validation: {error}'))
    if errors:
        raise RunError(errors)


def _complete_services(
    plan: ValidatedGraph, services: dict[str, Any], allows_defaults: bool
) -> None:
    """Make the defaults that are missing. They stay, for the graph's later runs."""
    for node in plan.nodes:
        for key, request in node.service_requests.items():
            if key in services:
                continue
            factory = request.service.factory
            if not allows_defaults:
                reason = "Service default initialization is disallowed."
            elif factory is None:
                reason = "the service has no default."
            else:
                try:
                    services[key] = factory()
                    continue
                except BaseException as error:
                    raise_interrupt(error)
                    reason = reason_of(error)
            if not request.is_optional:
                raise RunError(
                    [
                        GraphError(
                            f'Service "{key}", required by node {node.name}, was not provided and '
                            f"cannot be created: {reason}",
                            code=Code.INTERNAL,
                        )
                    ]
                )


def _make_queues(
    setup: RunSetup, lock: threading.Lock, is_async: bool
) -> tuple[
    SyncDriver | AsyncioDriver,
    dict[str, ReadyQueue],
    dict[str, tuple[ReadyQueue, Executor]],
]:
    """Return the queue of each executor; one is the driver's own, the others belong to pools."""
    own = ReadyQueue("", is_pumped=True)
    queues: dict[str, ReadyQueue] = {}
    pools: dict[str, tuple[ReadyQueue, Executor]] = {}
    is_eager = True
    planned, given = setup.plan.executors, setup.executors
    for name in {**planned, **given}:
        executor = given.get(name)
        if executor is None and planned[name].type:
            executor = _make_executor(setup, planned[name])
        if executor is None:
            queues[name] = own
        elif isinstance(executor, ApplicationThreadExecutor):
            queues[name] = own
            if not name:
                is_eager = False
        else:
            queues[name] = ReadyQueue(name, is_pumped=False)
            pools[name] = (queues[name], executor)
    driver = AsyncioDriver(lock, own) if is_async else SyncDriver(lock, own, eager=is_eager)
    return driver, queues, pools


def _make_executor(setup: RunSetup, executor: ExecutorPlan) -> Executor:
    """Return the executor of a type; one without a type is the driver's own."""
    if executor.type == APPLICATION_THREAD:
        return ApplicationThreadExecutor()
    if executor.type == THREAD_POOL:
        threads = executor.num_threads
        if threads < 1:
            threads = automatic_num_threads(len(setup.plan.nodes))
        return ThreadPoolExecutor(threads, executor.thread_name_prefix)
    factory = setup.registry.find_executor(executor.type, setup.plan.config.package)
    assert factory is not None, "checked at validation"
    return factory(executor.options)
