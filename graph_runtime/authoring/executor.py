"""Executors: where the calls of nodes run.

Three kinds can be named in a graph (``executor { name, type }``) or given to a graph object:

* the application's thread (`ApplicationThreadExecutor`): calls run inside the application's own
  calls (``wait_until_idle`` and its neighbours), so their order is the same in every run;
* a pool of threads (`ThreadPoolExecutor`, or ``num_threads: n``);
* the default, if the graph names none: on an event loop if the graph was started on one, else in
  the application's thread as soon as there is work (see `graph_runtime.engine.drivers`).
"""

from __future__ import annotations

import os
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, final

Task = Callable[[], None]

#: Seconds that a thread of the cache waits for more work before it ends.
IDLE_SECONDS: Final = 10.0


class Executor(ABC):
    """Runs tasks, each in some thread. An application may give a graph an executor of its own."""

    #: Number of tasks that may run at the same time.
    num_threads: int = 1

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Run ``task`` soon. The task never raises, and may take long."""


@final
class ApplicationThreadExecutor(Executor):
    """Runs calls in the thread that waits for the graph, in one repeatable order."""

    def submit(self, task: Task) -> None:
        raise NotImplementedError("calls run in the application's own thread")


@final
class ThreadPoolExecutor(Executor):
    """Uses at most ``num_threads`` threads of a cache that all graphs of the process share.

    A graph with a pool costs no thread until it has work, and making or closing a graph starts and
    ends none.
    """

    def __init__(self, num_threads: int, thread_name_prefix: str = "") -> None:
        if num_threads < 1:
            raise ValueError(too_few_threads(num_threads))
        self.num_threads = num_threads
        self.thread_name_prefix = thread_name_prefix or "graphrt"

    def submit(self, task: Task) -> None:
        THREADS.start(task, self.thread_name_prefix)


def too_few_threads(num_threads: int) -> str:
    """Return the text of the error for a number of threads that is not positive."""
    return (
        "The num_threads field in ThreadPoolExecutorOptions should be positive but is "
        f"{num_threads}"
    )


def automatic_num_threads(num_nodes: int) -> int:
    """Return the number of cores, but no more than the number of nodes."""
    return min(os.cpu_count() or 1, max(num_nodes, 1))


class ThreadCache:
    """Threads that wait a while for more work before they end. All are daemon threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []  # guarded by: self._lock

    def forget(self) -> None:
        """Forget all threads. A forked child has none of its parent's."""
        self._lock = threading.Lock()
        self._idle = []

    def start(self, task: Task, name: str) -> None:
        """Run a task in an idle thread, or in a new one if none is idle."""
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is None:
            worker = _Worker(self)
            worker.tasks.put((task, name))
            worker.start()
        else:
            worker.tasks.put((task, name))

    def offer(self, worker: _Worker) -> None:
        """Add an idle worker."""
        with self._lock:
            self._idle.append(worker)

    def withdraw(self, worker: _Worker) -> bool:
        """Remove a worker that wants to end; False if it was just given a task."""
        with self._lock:
            if worker not in self._idle:
                return False
            self._idle.remove(worker)
            return True


class _Worker(threading.Thread):
    def __init__(self, cache: ThreadCache) -> None:
        super().__init__(daemon=True, name="graphrt")
        self.tasks: queue.SimpleQueue[tuple[Task, str]] = queue.SimpleQueue()
        self._cache = cache

    def run(self) -> None:
        while True:
            try:
                task, name = self.tasks.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                if self._cache.withdraw(self):
                    return
                task, name = self.tasks.get()
            self.name = name
            task()
            del task
            self._cache.offer(self)


THREADS: Final = ThreadCache()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=THREADS.forget)
