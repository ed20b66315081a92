"""Runs a conformance case through the public API, on any of the drivers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

from graph_runtime import (
    ApplicationThreadExecutor,
    CalculatorGraph,
    GraphError,
    GraphInputStreamAddMode,
    Packet,
    Registry,
    ThreadPoolExecutor,
    Timestamp,
    parse_graph_text,
)
from graph_runtime import timestamp as ts
from tests.corpora import corpora

CASES_FILE = corpora() / "graph.jsonl"
TIMES = {name: value for value, name in ts.SPECIAL_NAMES.items()}


def load_cases(path: Path = CASES_FILE) -> list[dict[str, Any]]:
    """Return the cases."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def to_time(value: int | str) -> Timestamp:
    return Timestamp.of(TIMES[value]) if isinstance(value, str) else Timestamp(value)


def from_time(value: int) -> int | str:
    return ts.SPECIAL_NAMES.get(int(value), int(value))


def to_value(value: Any) -> Any:
    return value["value"] if isinstance(value, dict) and "type" in value else value


def from_value(value: Any) -> Any:
    if isinstance(value, Packet):
        return None if value.is_empty() else from_value(value.value)
    if isinstance(value, Timestamp):
        return from_time(value)
    if isinstance(value, (list, tuple)):
        return [from_value(item) for item in value]
    return value


class CaseRun:
    """Record of a case's run, and the differences from what it should do."""

    def __init__(self, case: dict[str, Any], registry: Registry, driver: str) -> None:
        self.case = case
        self.expect = case["expect"]
        self.driver = driver
        self.registry = Registry(registry)
        for name, text in case.get("subgraphs", {}).items():
            self.registry.register_subgraph(text, name)
        self.failures: list[str] = []
        self.observed: dict[str, list[list[Any]]] = {}
        self.bounds: dict[str, Any] = {}
        self.error: str | None = None
        self.graph: CalculatorGraph | None = None

    def run(self) -> list[str]:
        """Run the case; return the differences, of which there should be none."""
        wanted = self.expect.get("validation_error_contains")
        try:
            graph = self.graph = CalculatorGraph(
                parse_graph_text(self.case["graph_pbtxt"]), registry=self.registry
            )
        except ValueError as error:
            if wanted is None:
                return [f"unexpected validation error: {error}"]
            return lacking(wanted, error)
        if wanted is not None:
            return ["expected a validation error"]
        self._prepare(graph)
        if self.driver == "asyncio":
            asyncio.run(self._run_async(graph))
        else:
            self._run_sync(graph)
        self._compare(graph)
        return self.failures

    def _prepare(self, graph: CalculatorGraph) -> None:
        declared = any(not executor for executor in self._declared_executors(graph))
        if self.driver == "application thread" and not declared:
            graph.set_executor("", ApplicationThreadExecutor())
        elif self.driver == "thread pool" and not declared:
            graph.set_executor("", ThreadPoolExecutor(2))
        graph.check_invariants()
        mode = self.case.get("add_mode")
        if mode:
            graph.graph_input_stream_add_mode = GraphInputStreamAddMode[mode]
        names = [
            *self.expect.get("outputs", {}),
            *self.expect.get("observed", {}),
            *self.expect.get("bounds", {}),
        ]
        for name in dict.fromkeys(names):
            self.observed[name] = []

            def observe(stream: str, packet: Packet, seen: list[Any] = self.observed[name]) -> None:
                seen.append([from_time(packet.time), from_value(packet)])

            try:
                graph.observe_output_stream(name, observe, True)
            except GraphError as error:
                self.error = str(error)

    def _declared_executors(self, graph: CalculatorGraph) -> list[str]:
        return [name for name, plan in graph.plan.executors.items() if plan.type and not name]

    # The same steps for both drivers; calls that may wait are looked up by their twin's name.

    def _run_sync(self, graph: CalculatorGraph) -> None:
        if self.error:
            return
        try:
            for step, op in self._steps(graph):
                self._guarded(step, op)
        except GraphError as error:
            self.error = str(error)
        finally:
            self._end(graph)

    def _end(self, graph: CalculatorGraph) -> None:
        graph.cancel()
        with contextlib.suppress(GraphError):
            graph.wait_until_done()

    async def _run_async(self, graph: CalculatorGraph) -> None:
        if self.error:
            return
        try:
            for step, op in self._steps(graph):
                await self._guarded_async(graph, step, op)
        except GraphError as error:
            self.error = str(error)
        finally:
            graph.cancel()
            with contextlib.suppress(GraphError):
                await graph.wait_until_done_async()

    def _steps(self, graph: CalculatorGraph) -> Any:
        side = {name: to_value(value) for name, value in self.case["side_packets"].items()}
        if not self.case.get("no_start"):
            yield ("start_run", side), {}
        for op in self.case["feed"]:
            if "stream" in op:
                packet = Packet(to_value(op["value"]), to_time(op["ts"]))
                yield ("add_packet_to_input_stream", op["stream"], packet), op
            elif "close" in op:
                yield ("close_input_stream", op["close"]), op
            elif "set_bound" in op:
                bound = op["set_bound"]
                yield (
                    (
                        "set_input_stream_timestamp_bound",
                        bound["stream"],
                        to_time(bound["ts"]),
                    ),
                    op,
                )
            elif "restart" in op:
                yield ("close_all_packet_sources",), {}
                yield ("wait_until_done",), op if "error_contains" in op else {}
                values = {name: to_value(value) for name, value in op["restart"].items()}
                yield ("start_run", values), {}
            elif "checkpoint" in op:
                for name, count in op["checkpoint"].items():
                    seen = sum(1 for _, value in self.observed[name] if value is not None)
                    if seen != count:
                        self.failures.append(f"checkpoint {name}: {count} wanted, {seen} seen")
            else:
                name = next(key for key in op if key != "error_contains")
                yield (name,), op
        if self.case.get("finish", True) and not self.case.get("no_start"):
            yield ("wait_until_idle",), {}
            self._take_bounds()
            yield ("close_all_packet_sources",), {}
            yield ("wait_until_done",), {}
        else:
            self._take_bounds()

    def _take_bounds(self) -> None:
        for name, seen in self.observed.items():
            self.bounds[name] = None
            if seen:
                last = seen[-1][0]
                value = TIMES[last] if isinstance(last, str) else last
                self.bounds[name] = from_time(ts.next_allowed_in_stream(value))

    def _guarded(self, step: tuple[Any, ...], op: dict[str, Any]) -> None:
        wanted = op.get("error_contains")
        try:
            getattr(self.graph, step[0])(*step[1:])
        except GraphError as error:
            if wanted is None:
                raise
            self.failures += [
                f"op error {str(error)!r} lacks {x!r}" for x in lacking(wanted, error)
            ]
        else:
            if wanted is not None:
                self.failures.append(f"{op}: expected an error")

    async def _guarded_async(
        self, graph: CalculatorGraph, step: tuple[Any, ...], op: dict[str, Any]
    ) -> None:
        twin = getattr(graph, f"{step[0]}_async", None)
        if twin is None:
            self._guarded(step, op)
            return
        wanted = op.get("error_contains")
        try:
            await twin(*step[1:])
        except GraphError as error:
            if wanted is None:
                raise
            self.failures += [
                f"op error {str(error)!r} lacks {x!r}" for x in lacking(wanted, error)
            ]
        else:
            if wanted is not None:
                self.failures.append(f"{op}: expected an error")

    def _compare(self, graph: CalculatorGraph) -> None:
        wanted = self.expect.get("error_contains")
        if wanted is None and self.error is not None:
            self.failures.append(f"unexpected error: {self.error}")
        elif wanted is not None and self.error is None:
            self.failures.append(f"expected the error {wanted!r}")
        elif wanted is not None:
            self.failures += [
                f"error {self.error!r} lacks {x!r}" for x in lacking(wanted, self.error)
            ]
        for name, packets in self.expect.get("outputs", {}).items():
            seen = [entry for entry in self.observed[name] if entry[1] is not None]
            if not same(packets, seen):
                self.failures.append(f"outputs[{name}]: want {packets} got {seen}")
        is_exact = self.driver == "application thread" or not self.case.get("strict_observed")
        if is_exact and self.driver != "thread pool":
            for name, entries in self.expect.get("observed", {}).items():
                if not same(entries, self.observed[name]):
                    self.failures.append(
                        f"observed[{name}]: want {entries} got {self.observed[name]}"
                    )
        for name, bound in self.expect.get("bounds", {}).items():
            if self.bounds.get(name) != bound:
                self.failures.append(f"bounds[{name}]: want {bound} got {self.bounds.get(name)}")
        for name, value in self.expect.get("side_packets", {}).items():
            try:
                got = from_value(graph.get_output_side_packet(name))
            except GraphError:
                got = None
            if not same(value, got):
                self.failures.append(f"side packet {name}: want {value} got {got}")
        if "nodes" in self.expect:
            self._compare_nodes(graph)
        if self.expect.get("max_queue_size", graph.max_queue_size) != graph.max_queue_size:
            self.failures.append(f"max_queue_size is {graph.max_queue_size}")

    def _compare_nodes(self, graph: CalculatorGraph) -> None:
        nodes = list(graph.plan.config.node)
        if len(nodes) != len(self.expect["nodes"]):
            self.failures.append(f"{len(nodes)} nodes")
            return
        for node, wanted in zip(nodes, self.expect["nodes"], strict=True):
            for field, value in wanted.items():
                got = getattr(node, field)
                got = got if isinstance(got, (str, int)) else list(got)
                if got != value:
                    self.failures.append(f"node field {field}: want {value} got {got}")


def lacking(wanted: str | list[str], error: object) -> list[str]:
    """Return the parts that an error's text should contain and does not."""
    fragments = [wanted] if isinstance(wanted, str) else wanted
    return [
        f"error {str(error)!r} lacks {fragment!r}"
        for fragment in fragments
        if fragment not in str(error)
    ]


def same(a: Any, b: Any) -> bool:
    """Return True if both are equal, floats nearly so, and of the same types."""
    has_float = isinstance(a, float) or isinstance(b, float)
    if has_float and all(isinstance(x, int | float) and not isinstance(x, bool) for x in (a, b)):
        return bool(abs(a - b) <= 1e-5 * max(1, abs(a), abs(b)))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and bool(a == b)
