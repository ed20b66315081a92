"""A server as seen by a normal client and a prober, each a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from tests.process.server_process import ServerProcess
from tests.reliability.hostile.normal_client import KINDS
from tests.servers.cli.process import environment
from tests.support.checkout import ROOT

_PACKAGE: Final = __package__ or ""
#: This many good answers of each kind, all begun after an attack, show that it is over.
_GOOD_ANSWERS: Final = 2
_WELL_SECONDS: Final = 120.0


@dataclass(frozen=True)
class Memory:
    """Memory of one process, or of several of one kind together, in MiB."""

    before: float
    peak: float
    after: float

    def __str__(self) -> str:
        return f"{self.before:.0f} / {self.peak:.0f} / {self.after:.0f}"


@dataclass(frozen=True)
class Seen:
    """Observations from the beginning of an attack until the normal client was served again.

    Attributes:
        waits: seconds of the normal client's longest request, by kind; "health" is the prober.
        bad: answers that the normal client got instead of 200, by kind and status.
        stall: the longest probe in seconds, without the time in which a thread had no processor.
        memory: by what the processes run.
    """

    waits: dict[str, float]
    bad: Counter[tuple[str, int]]
    stall: float
    memory: dict[str, Memory]

    @property
    def longest_wait(self) -> float:
        return max(self.waits.values(), default=0.0)


class Watch:
    """Both watchers while the context is entered."""

    def __init__(self, server: ServerProcess) -> None:
        port, pid = str(server.port), str(server.pid)
        self._answers: list[dict[str, Any]] = []
        self._probes: list[dict[str, Any]] = []
        self._looks: list[dict[str, Any]] = []
        self._processes = [
            self._start("normal_client", self._take_answer, port),
            self._start("prober", self._take_probe, port, pid),
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process, reader in self._processes:
            process.kill()
            process.wait()
            reader.join()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.stdout.close()

    def wait_until_well(self, since: float) -> bool:
        """Wait until each kind of request was answered twice; False if that does not happen."""
        deadline = time.monotonic() + _WELL_SECONDS
        while time.monotonic() < deadline:
            good = Counter(
                answer["kind"]
                for answer in self._answers
                if answer["begin"] > since and answer["status"] == 200
            )
            if all(good[kind] >= _GOOD_ANSWERS for kind in KINDS):
                return True
            time.sleep(0.05)
        return False

    def seen(self, begin: float, end: float) -> Seen:
        """Return the observations between two moments."""

        def is_within(line: dict[str, Any]) -> bool:
            return bool(line["begin"] <= end and line["begin"] + line["seconds"] >= begin)

        answers = [answer for answer in self._answers if is_within(answer)]
        probes = [probe for probe in self._probes if is_within(probe)]
        waits = {
            kind: max((each["seconds"] for each in answers if each["kind"] == kind), default=0.0)
            for kind in KINDS
        }
        waits["health"] = max((probe["seconds"] for probe in probes), default=0.0)
        return Seen(
            waits=waits,
            bad=Counter(
                (answer["kind"], answer["status"]) for answer in answers if answer["status"] != 200
            ),
            stall=max((probe["seconds"] - probe["starved"] for probe in probes), default=0.0),
            memory=self._memory(begin, end),
        )

    def _memory(self, begin: float, end: float) -> dict[str, Memory]:
        before: dict[str, float] = {}
        during: list[dict[str, float]] = []
        for look in self._looks:
            sizes: dict[str, float] = {}
            for name, size in look["memory"].items():
                sizes[_kind_of(name)] = sizes.get(_kind_of(name), 0.0) + size
            if look["at"] <= begin:
                before = sizes
            elif look["at"] <= end:
                during.append(sizes)
        kinds = dict.fromkeys(name for sizes in [before, *during] for name in sizes)
        return {
            kind: Memory(
                before.get(kind, 0.0),
                max([sizes.get(kind, 0.0) for sizes in [before, *during]]),
                during[-1].get(kind, 0.0) if during else 0.0,
            )
            for kind in kinds
        }

    # The processes --------------------------------------------------------------------------------

    def _start(
        self, module: str, take: Callable[[dict[str, Any]], object], *words: str
    ) -> tuple[subprocess.Popen[str], threading.Thread]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"{_PACKAGE}.{module}", *words],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        reader = threading.Thread(target=_read, args=(process, take), daemon=True)
        reader.start()
        return process, reader

    def _take_answer(self, line: dict[str, Any]) -> None:
        self._answers.append(line)

    def _take_probe(self, line: dict[str, Any]) -> None:
        (self._looks if "memory" in line else self._probes).append(line)


def _read(process: subprocess.Popen[str], take: Callable[[dict[str, Any]], object]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        take(json.loads(line))


def _kind_of(name: str) -> str:
    """Return the kind of a process: "calculators.llm.engine.process 17" is an engine."""
    module = name.partition(" ")[0]
    return module.removesuffix(".process").rpartition(".")[2] or "other"
