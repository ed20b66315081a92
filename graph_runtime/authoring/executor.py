"""Executors: where the calls of nodes run.

Three kinds can be named in a graph (``executor { name, type }``) or given to a graph object:

* the application's thread (`ApplicationThreadExecutor`): calls run inside the application's own
  calls (``wait_until_idle`` and its neighbours), so their order is the same in every run;
* a pool of threads (`ThreadPoolExecutor`, or ``num_threads: n``);
* nothing said, the default: on an event loop when the graph is run from one, else in the
  application's thread as soon as there is work (see `graph_runtime.engine.drivers`).
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
    """Runs tasks somewhere. An application may give a graph one of its own."""

    #: How many tasks may run at the same time.
    num_threads: int = 1

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Run ``task`` soon; it never raises, and it may take long."""


@final
class ApplicationThreadExecutor(Executor):
    """Calls run in the thread that waits for the graph; a single, repeatable order."""

    def submit(self, task: Task) -> None:
        raise NotImplementedError("calls run in the application's own thread")


@final
class ThreadPoolExecutor(Executor):
    """At most ``num_threads`` threads, taken from a cache that all graphs of the process share.

    So a graph with a pool costs no thread until it has work, and making and closing graphs makes
    and ends none.
    """

    def __init__(self, num_threads: int, thread_name_prefix: str = "") -> None:
        if num_threads < 1:
            raise ValueError(
                f"The num_threads field in ThreadPoolExecutorOptions should be positive but is "
                f"{num_threads}"
            )
        self.num_threads = num_threads
        self.thread_name_prefix = thread_name_prefix or "graphrt"

    def submit(self, task: Task) -> None:
        THREADS.start(task, self.thread_name_prefix)


def automatic_num_threads(num_nodes: int) -> int:
    """As many threads as cores, but no more than nodes."""
    return min(os.cpu_count() or 1, max(num_nodes, 1))


class ThreadCache:
    """Threads that wait a while for more work before they end. They never outlive the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []  # guarded by: self._lock

    def forget(self) -> None:
        """In a forked child, which has none of its parent's threads."""
        self._lock = threading.Lock()
        self._idle = []

    def start(self, task: Task, name: str) -> None:
        """Run a task in a thread: an idle one when there is one."""
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is None:
            worker = _Worker(self)
            worker.tasks.put((task, name))
            worker.start()
        else:
            worker.tasks.put((task, name))

    def offer(self, worker: _Worker) -> None:
        """A worker has nothing to do."""
        with self._lock:
            self._idle.append(worker)

    def withdraw(self, worker: _Worker) -> bool:
        """A worker wants to end; False when it was just given a task."""
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
