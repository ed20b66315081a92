"""Metrics of files and batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from servers.batches.desk import BatchDesk
from servers.batches.objects import Status
from servers.batches.store import StoreCounts
from servers.operations.metrics.families import Families


def publish_batches(families: Families, desk: BatchDesk) -> None:
    """Make the families of batches, which follow the desk's sums.

    The sums are kept with the batches, so they do not begin anew with the server.
    """

    def follow(read: Callable[[StoreCounts], float]) -> Callable[[], float]:
        return lambda: read(desk.counts)

    batches = families.gauge("graphrt_batches", "Batches by status.")
    for status in Status:
        batches.of({"status": status.value}).follow(follow(partial(_batches_in, status)))
    requests = families.counter(
        "graphrt_batch_requests_total", "Requests of batches that have an answer, by outcome."
    )
    requests.of({"outcome": "completed"}).follow(follow(lambda c: c.completed))
    requests.of({"outcome": "failed"}).follow(follow(lambda c: c.failed))
    tokens = families.counter(
        "graphrt_batch_tokens_total", "Tokens of answers to requests of batches."
    )
    tokens.of({"kind": "input"}).follow(follow(lambda c: c.input_tokens))
    tokens.of({"kind": "output"}).follow(follow(lambda c: c.output_tokens))
    waiting = families.gauge(
        "graphrt_batch_requests_waiting", "Requests of batches that have no answer yet."
    )
    waiting.of({}).follow(follow(lambda c: c.waiting))
    files = families.gauge("graphrt_batch_files", "Files for batches, and their results.")
    files.of({}).follow(follow(lambda c: c.files))
    size = families.gauge("graphrt_batch_file_bytes", "Bytes of these files.")
    size.of({}).follow(follow(lambda c: c.file_bytes))
    worker = families.gauge(
        "graphrt_batch_worker", "1 while the process that answers requests of batches runs."
    )
    worker.of({}).follow(lambda: float(desk.has_worker))


def _batches_in(status: Status, counts: StoreCounts) -> float:
    return counts.batches.get(status.value, 0)
