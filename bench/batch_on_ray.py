"""`graphrt batch` with and without `--on ray`: tokens and lines per second, and memory.

    python -m bench.batch_on_ray [--write FILE]

The command answers a short and a long file. The rate is that of the long one between a quarter of
its answers and all of them, as the command's store has them, so that the start of processes and
clusters does not count. The memory is the most that the command's own process had. Lines for the
example model generate; lines for a graph that answers at once show the cost of the way.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from bench.machine import add_write, describe_machine, publish
from bench.python_calls import DEMO
from bench.serve_vs_engine import say

TOKENS: Final = 60
WIDTH: Final = 32
REPLICAS: Final = 2
#: Lines of the short file and of the long one.
CHATS: Final = (64, 640)
ECHOES: Final = (1_000, 7_000)
_LOOK_SECONDS: Final = 0.05

_ECHO: Final = """\
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class EchoBody(Calculator):
    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[bytes]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, cc.get(self.request).body)
"""
#: A graph of one node that answers HTTP requests.
GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "CALCULATOR"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


class Run(NamedTuple):
    """One run of the command: its time and memory, and the lines per second in the middle."""

    seconds: float
    mebibytes: float
    rate: float


class Figures(NamedTuple):
    """The runs with the short and the long file."""

    short: Run
    long: Run


def write_site(folder: Path) -> None:
    """Write the graphs and their config.json."""
    (folder / "echo.py").write_text(_ECHO)
    (folder / "echo").mkdir()
    (folder / "echo" / "graph.pbtxt").write_text(GRAPH.replace("CALCULATOR", "EchoBody"))
    scale = {"min_replicas": REPLICAS, "num_cpus": 0.1}
    graphs = [
        {"name": "demo", "base_path": str(DEMO), "scale": scale},
        {"name": "echo", "scale": scale},
    ]
    config = {"model_config_list": [], "mediapipe_config_list": graphs}
    (folder / "config.json").write_text(json.dumps(config))


class Watch:
    """The answers in the store of a running command. Use it as a context manager."""

    def __init__(self, store: Path) -> None:
        self._store = store
        # One connection for the whole time: each new one would make files in a directory that the
        # command removes.
        self._connection: sqlite3.Connection | None = None
        self._seen: list[tuple[float, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def look(self) -> None:
        """Count the answers."""
        if self._connection is None:
            if not self._store.exists():
                return
            self._connection = sqlite3.connect(f"file:{self._store}?mode=ro", uri=True)
        try:
            ((count,),) = self._connection.execute("select count(*) from answers").fetchall()
        except sqlite3.OperationalError:
            return  # it is being made, or is gone
        if not self._seen or count > self._seen[-1][1]:
            self._seen.append((time.perf_counter(), count))

    def rate(self, least: int) -> float:
        """Return the answers per second from the first look at ``least`` answers on.

        Raises:
            RuntimeError: fewer than two looks found so many.
        """
        found = [each for each in self._seen if each[1] >= least]
        if len(found) < 2:
            raise RuntimeError("the file is too short for a rate")
        (began, first), (ended, last) = found[0], found[-1]
        return (last - first) / (ended - began)


def line(model: str, number: int) -> str:
    """Return a line for a model; no two have the same beginning."""
    messages = [{"role": "user", "content": f"Number {number}: tell me about graphs."}]
    body = {"model": model, "messages": messages, "max_tokens": TOKENS, "ignore_eos": True}
    if model == "echo":
        body = {"model": model, "text": f"{number} " * 40}
    asked = {"custom_id": f"r{number}", "method": "POST", "url": "/v1/chat/completions"}
    return json.dumps({**asked, "body": body}) + "\n"


def run(folder: Path, model: str, count: int, where: Sequence[str]) -> Run:
    """Answer a file of so many lines.

    Raises:
        RuntimeError: a line has no answer, or the file is too short for a rate.
    """
    name = f"{model}-{count}-{len(where)}"
    file = folder / f"{name}.jsonl"
    with file.open("w") as lines:
        lines.writelines(line(model, number) for number in range(count))
    words = ["batch", file.name, "config.json", "--calculators", "echo.py", *where]
    command = [sys.executable, "-m", "servers.cli", *words, "--batch_width", str(WIDTH)]
    paths = [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment["RAY_ADDRESS"] = "local"
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    with Watch(folder / f"{name}.output.jsonl.state" / "store.sqlite") as seen:
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            seen.look()
            time.sleep(_LOOK_SECONDS)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    with (folder / f"{name}.output.jsonl").open() as output:
        answers = sum(1 for _ in output)
    if process.returncode or answers != count:
        raise RuntimeError(f"{answers} of {count} lines were answered")
    return Run(seconds, used.ru_maxrss / 1024, seen.rate(count // 4))


def measure(folder: Path, model: str, counts: tuple[int, int], where: Sequence[str]) -> Figures:
    """Answer a short and a long file."""
    short, long = (run(folder, model, count, where) for count in counts)
    say(f"{model} {where}: {short}, {long}")
    return Figures(short, long)


def report(found: dict[tuple[str, str], Figures]) -> list[str]:
    """Return the lines of the report."""
    chats, echoes = CHATS, ECHOES
    lines = [
        "# Batches on Ray",
        "",
        f"`python -m bench.batch_on_ray` on {describe_machine()}.",
        f"`graphrt batch` with {WIDTH} requests at a time; on Ray {REPLICAS} replicas of each "
        "graph, on the same two cores, and a",
        f"cluster of its own. Files of {chats[0]} and {chats[1]:,} chats of {TOKENS} tokens with "
        f"the example model, and of {echoes[0]:,} and {echoes[1]:,}",
        "lines that a graph gives back. Rates are of the last three quarters of the long file; "
        "seconds are of the whole command, start and",
        "end included. The memory is that of the command's own process. One run each.",
        "",
        "| lines | where | lines/s | tokens/s | seconds, short and long | MB, short and long |",
        "|---|---|---|---|---|---|",
    ]
    for (model, where), each in found.items():
        tokens = f"{each.long.rate * TOKENS:,.0f}" if model == "demo" else ""
        lines.append(
            f"| {model} | {where} | {each.long.rate:,.1f} | {tokens} | {each.short.seconds:.0f}, "
            f"{each.long.seconds:.0f} | {each.short.mebibytes:.0f}, {each.long.mebibytes:.0f} |"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_write(parser)
    options = parser.parse_args(arguments)
    places = {"this process": (), "`--on ray`": ("--on", "ray")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_site(folder)
        found = {
            (model, where): measure(folder, model, counts, words)
            for model, counts in (("demo", CHATS), ("echo", ECHOES))
            for where, words in places.items()
        }
    text = "\n".join(report(found)) + "\n"
    publish(text, options.write)


if __name__ == "__main__":
    main()
