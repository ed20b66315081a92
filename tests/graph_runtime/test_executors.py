"""Executors: where calls run, and errors of their configuration."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from graph_runtime import (
    ApplicationThreadExecutor,
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    Code,
    Executor,
    GraphConfigError,
    GraphError,
    In,
    Out,
    Registry,
    RunError,
    ThreadPoolExecutor,
    ValidationError,
)
from graph_runtime.authoring.executor import ThreadCache, automatic_num_threads
from graph_runtime.testing import Sink
from tests.graph_runtime.small_calculators import one_node
from tests.support.patience import PATIENCE


class Where(Calculator):
    """Sends the name of the thread that calls it."""

    value = In[Any]()
    thread = Out[str]()

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.thread, threading.current_thread().name)


@pytest.fixture
def where(registry: Registry) -> Callable[..., list[str]]:
    """Run the node; return the names of the threads that called it."""
    registry.register_calculator(Where)

    def run(text: str, **executors: Executor) -> list[str]:
        graph = CalculatorGraph(text_config=text, registry=registry, executors=executors)
        sink = Sink(graph, "out")
        graph.start_run()
        for time in range(3):
            graph.add_packet_to_input_stream("in", None, time)
        graph.close()
        return sink.values

    return run


POOL = """
    executor { name: "pool" type: "ThreadPoolExecutor" options {
      [mediapipe.ThreadPoolExecutorOptions.ext] {
        num_threads: 1 thread_name_prefix: "pool-of-one" } } }
"""


def test_the_default_is_the_applications_thread(where: Callable[..., list[str]]) -> None:
    assert where(one_node("Where")) == [threading.current_thread().name] * 3


def test_a_named_pool_runs_the_nodes_that_name_it(where: Callable[..., list[str]]) -> None:
    assert where(one_node("Where", 'executor: "pool"', POOL)) == ["pool-of-one"] * 3
    assert where(one_node("Where", "", POOL)) == [threading.current_thread().name] * 3


@pytest.mark.parametrize("graph", ["num_threads: 2", "num_threads: -1"])
def test_num_threads_is_a_pool_for_all_nodes(where: Callable[..., list[str]], graph: str) -> None:
    assert where(one_node("Where", "", graph)) == ["graphrt"] * 3


def test_the_applications_thread_can_be_named(where: Callable[..., list[str]]) -> None:
    text = one_node("Where", "", 'executor { type: "ApplicationThreadExecutor" }')
    assert where(text) == [threading.current_thread().name] * 3


class Recording(Executor):
    """An executor that counts tasks and runs them in threads of its own."""

    num_threads = 2

    def __init__(self) -> None:
        self.tasks = 0

    def submit(self, task: Callable[[], None]) -> None:
        self.tasks += 1
        threading.Thread(target=task, name="recorded").start()


def test_an_application_can_provide_an_executor(where: Callable[..., list[str]]) -> None:
    executor = Recording()
    declared = 'executor { name: "mine" }'

    assert where(one_node("Where", 'executor: "mine"', declared), mine=executor) == ["recorded"] * 3
    assert executor.tasks > 0


def test_set_executor_is_called_before_the_run_and_once(registry: Registry) -> None:
    registry.register_calculator(Where)
    graph = CalculatorGraph(text_config=one_node("Where"), registry=registry)
    sink = Sink(graph, "out")
    graph.set_executor("", ThreadPoolExecutor(1, "given"))
    with pytest.raises(GraphError, match="only once for the executor") as caught:
        graph.set_executor("", ThreadPoolExecutor(1))
    assert caught.value.code is Code.ALREADY_EXISTS
    with pytest.raises(GraphConfigError, match='"__gpu" is a reserved executor name'):
        graph.set_executor("__gpu", ThreadPoolExecutor(1))
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 0)
    graph.close()
    assert sink.values == ["given"]


def test_an_executor_that_refuses_work_fails_the_run(registry: Registry) -> None:
    class Full(Executor):
        def submit(self, task: Callable[[], None]) -> None:
            raise OSError("can't start new thread")

    graph = CalculatorGraph(
        text_config=one_node("Forward"), registry=registry, executors={"": Full()}
    )
    graph.start_run()
    with pytest.raises(RunError, match=r"failed to take work: OSError: can't start new thread"):
        graph.add_packet_to_input_stream("in", 1, 0)
    with pytest.raises(RunError, match="failed to take work"):
        graph.close()


def test_an_executor_that_fails_later_fails_the_run(registry: Registry) -> None:
    class Fails(Recording):
        def submit(self, task: Callable[[], None]) -> None:
            if self.tasks == 2:  # open, and the first packet
                raise OSError("shut down")
            super().submit(task)

    graph = CalculatorGraph(
        text_config=one_node("Forward"), registry=registry, executors={"": Fails()}
    )
    graph.start_run()
    graph.wait_until_idle()
    graph.add_packet_to_input_stream("in", 0, 0)
    graph.wait_until_idle()
    graph.add_packet_to_input_stream("in", 1, 1)
    with pytest.raises(RunError, match="shut down"):
        graph.close()


@pytest.mark.parametrize("nodes", [("OnLoop", "Forward"), ("Forward", "OnLoop")])
def test_executors_of_one_graph_work_together(registry: Registry, nodes: tuple[str, str]) -> None:
    async def on_loop(value: int) -> int:
        return value + 1

    registry.register_calculator(on_loop, "OnLoop")
    graph = CalculatorGraph(
        text_config=f"""
            input_stream: "in" {POOL}
            node {{ calculator: "{nodes[0]}" input_stream: "in" output_stream: "a" }}
            node {{ calculator: "{nodes[1]}" input_stream: "a" output_stream: "b"
                    executor: "pool" }}
            node {{ calculator: "Double" input_stream: "b" output_stream: "out" }}
        """,
        registry=registry,
    )
    sink = Sink(graph, "out")
    graph.check_invariants()
    graph.start_run()
    for value in range(50):
        graph.add_packet_to_input_stream("in", value, value)
    graph.close()
    assert sink.values == [2 * (value + 1) for value in range(50)]


def test_an_unknown_executor_type_is_refused(registry: Registry) -> None:
    with pytest.raises(ValidationError, match='"GpuExecutor" is not a registered executor'):
        CalculatorGraph(text_config='executor { name: "x" type: "GpuExecutor" }', registry=registry)


def test_a_pool_needs_a_thread() -> None:
    with pytest.raises(ValueError, match="should be positive but is 0"):
        ThreadPoolExecutor(0)
    with pytest.raises(NotImplementedError):
        ApplicationThreadExecutor().submit(lambda: None)
    assert automatic_num_threads(1) == 1
    assert 1 <= automatic_num_threads(1000) < 1000


def test_threads_are_reused() -> None:
    offered: queue.SimpleQueue[object] = queue.SimpleQueue()

    class Watched(ThreadCache):
        def offer(self, worker: Any) -> None:
            super().offer(worker)
            offered.put(worker)

    cache = Watched()
    threads: list[tuple[int, str]] = []
    for turn in range(5):
        cache.start(
            lambda: threads.append((threading.get_ident(), threading.current_thread().name)),
            f"turn-{turn}",
        )
        offered.get(timeout=PATIENCE)
    assert len({ident for ident, _ in threads}) == 1
    assert [name for _, name in threads] == [f"turn-{turn}" for turn in range(5)]
