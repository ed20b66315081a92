"""Batches survive `kill -9`: no request is lost, none is answered twice.

    python -m tests.reliability.batch_kills [--kills 20] [--seed 0]

Serves a graph, makes a batch after each start, and kills the server, or only the worker, at random
moments: while a file arrives, while a batch is checked, answered, or its results are written. In
the end every batch that the server has acknowledged must be complete, with one answer for each
line; and no answer that was committed before a kill may have been computed after it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final

import openai

from tests.process.batch_site import PATH, computed, content_of, line, make_site
from tests.process.server_process import ServerProcess
from tests.support.conditions import wait_until
from tests.support.patience import PATIENCE

_WORKER: Final = "servers.cli.batch_worker"
_LINES: Final = 60
#: Numbers of requests in one batch are below this.
_MANY: Final = 100_000
_FINISHED: Final = ("completed", "failed", "expired", "cancelled")


class BatchKills:
    """One run. ``problems`` has what was wrong."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.problems: list[str] = []
        self.kills: Counter[str] = Counter()
        self._folder = folder
        self._random = Random(seed)
        self._words = make_site(folder)
        self._acknowledged: list[tuple[str, int]] = []
        self._made = 0
        #: Numbers of committed answers, each with the requests computed until then.
        self._committed: dict[int, int] = {}

    def run(self, kills: int) -> None:
        while sum(self.kills.values()) < kills:
            with self._server() as server:
                self._kill_one(server)
            self._note_committed()
        with self._server() as server:
            self._make_batch(server)
            self._check(server)

    def _server(self) -> ServerProcess:
        # At the lowest priority the worker starves on a machine that runs tests.
        words = (*self._words, "--batch_dir", "store", "--batch_width", "8")
        words += ("--batch_priority", "normal")
        return ServerProcess(*words, cwd=self._folder)

    def _kill_one(self, server: ServerProcess) -> None:
        """Make a batch, and kill the server or its worker at some moment."""
        making = threading.Thread(target=self._make_batch, args=(server,))
        making.start()
        moment = self._random.choice(("at once", "answers", "answers", "later", "worker"))
        if moment in ("answers", "worker"):
            before = self._answered()
            wait_until(
                lambda: self._answered() > before or self._all_finished(), "an answer is committed"
            )
        time.sleep(self._random.random() * (2.0 if moment == "later" else 0.5))
        self.kills[moment] += 1
        workers = [pid for pid, name in server.children().items() if name == _WORKER]
        if moment == "worker" and workers:
            os.kill(workers[0], signal.SIGKILL)
            before = self._answered()
            wait_until(
                lambda: self._answered() > before or self._all_finished(), "a new worker works"
            )
        server.send_signal(signal.SIGKILL)
        server.wait()
        making.join(PATIENCE)
        wait_until(lambda: not any(map(_runs, workers)), "the worker ends with its server")

    def _make_batch(self, server: ServerProcess) -> None:
        """Make a batch, and remember it once the server has acknowledged it."""
        self._made += 1
        first = self._made * _MANY
        content = content_of(
            line(first + each, seconds=self._random.random() / 10) for each in range(_LINES)
        )
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        endpoint: Any = PATH
        try:
            file = client.files.create(file=("in.jsonl", content), purpose="batch")
            batch = client.batches.create(
                input_file_id=file.id, endpoint=endpoint, completion_window="24h"
            )
        except openai.APIConnectionError:
            return  # the server was killed before it answered
        self._acknowledged.append((batch.id, first))

    # The store, as it is on the disk --------------------------------------------------------------

    def _rows(self, query: str) -> Iterator[Any]:
        path = self._folder / "store" / "store.sqlite"
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            yield from connection.execute(query).fetchall()

    def _answered(self) -> int:
        return sum(row[0] for row in self._rows("select completed + failed from batches"))

    def _all_finished(self) -> bool:
        states = [row[0] for row in self._rows("select status from batches")]
        return bool(states) and all(state in _FINISHED for state in states)

    def _note_committed(self) -> None:
        """Remember which answers are committed: nobody may compute them from now on."""
        known: set[int] = set()
        for (text,) in self._rows("select text from answers"):
            known.add(json.loads(text)["response"]["body"]["number"])
        for (file_id,) in self._rows(
            "select output_file_id from batches where output_file_id is not null"
        ):
            path = self._folder / "store" / "files" / file_id
            for text in path.read_text().splitlines():
                known.add(json.loads(text)["response"]["body"]["number"])
        until = len(computed(self._folder))
        for number in known:
            self._committed.setdefault(number, until)

    # The end --------------------------------------------------------------------------------------

    def _check(self, server: ServerProcess) -> None:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
        for batch_id, first in self._acknowledged:
            self._check_batch(client, batch_id, first)
        for place, number in enumerate(computed(self._folder)):
            if place >= self._committed.get(number, sys.maxsize):
                self.problems.append(f"request {number} was computed after its answer was kept")
        strays = [path.name for path in (self._folder / "store" / "uploads").iterdir()]
        files = {each.id for each in client.files.list(limit=10_000)}
        kept = {path.name for path in (self._folder / "store" / "files").iterdir()}
        if strays or files != kept:
            self.problems.append(f"left: {strays}, {files ^ kept}")

    def _check_batch(self, client: openai.OpenAI, batch_id: str, first: int) -> None:
        wait_until(lambda: client.batches.retrieve(batch_id).status in _FINISHED, batch_id)
        batch = client.batches.retrieve(batch_id)
        if batch.status != "completed" or batch.output_file_id is None:
            self.problems.append(f"{batch_id} is {batch.status}")
            return
        lines = client.files.content(batch.output_file_id).text.splitlines()
        numbers = [json.loads(each)["response"]["body"]["number"] for each in lines]
        if numbers != [first + each for each in range(_LINES)]:
            self.problems.append(f"{batch_id} has other answers than requests: {numbers}")
        if batch.request_counts is None or batch.request_counts.completed != _LINES:
            self.problems.append(f"{batch_id} counts {batch.request_counts}")

    def summary(self) -> str:
        again = sum(count - 1 for count in Counter(computed(self._folder)).values())
        kills = ", ".join(f"{count} {moment}" for moment, count in sorted(self.kills.items()))
        return (
            f"{sum(self.kills.values())} kills ({kills}); {len(self._acknowledged)} batches of "
            f"{_LINES} requests; {len(self._committed)} answers were committed at a kill, none of "
            f"them computed again; {again} that were not committed were"
        )


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kills = BatchKills(Path(folder), args.seed)
        kills.run(args.kills)
        for problem in kills.problems:
            print(problem)
        if not kills.problems:
            print(kills.summary())
    return 1 if kills.problems else 0


if __name__ == "__main__":
    sys.exit(main())
