"""`graphrt batch` with and without `--on ray`: tokens and lines per second, and memory.

    python -m bench.batch_on_ray [--write FILE]

The command answers a short and a long file. The rate is that of the further lines, so that the
start of processes and clusters does not count. The memory is the most that the command's own
process had. Lines for the example model generate; lines for a graph that answers at once show the
cost of the way.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.machine import describe_machine
from bench.python_calls import DEMO
from bench.serve_vs_engine import say

TOKENS: Final = 60
WIDTH: Final = 32
REPLICAS: Final = 2
#: Lines of the short file and of the long one.
CHATS: Final = (64, 448)
ECHOES: Final = (2_000, 14_000)

_ECHO: Final = """\
from calculators.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class EchoBody(Calculator):
    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[bytes]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, cc.get(self.request).body)
"""
_GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "EchoBody"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


class Run(NamedTuple):
    """One run of the command."""

    seconds: float
    mebibytes: float


class Figures(NamedTuple):
    """Further lines per second, and the memory with the short and the long file."""

    rate: float
    short: Run
    long: Run


def write_site(folder: Path) -> None:
    """Write the graphs and their config.json."""
    (folder / "echo.py").write_text(_ECHO)
    (folder / "echo").mkdir()
    (folder / "echo" / "graph.pbtxt").write_text(_GRAPH)
    scale = {"min_replicas": REPLICAS, "num_cpus": 0.1}
    graphs = [
        {"name": "demo", "base_path": str(DEMO), "scale": scale},
        {"name": "echo", "scale": scale},
    ]
    config = {"model_config_list": [], "mediapipe_config_list": graphs}
    (folder / "config.json").write_text(json.dumps(config))


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
        RuntimeError: a line has no answer.
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
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    answers = sum(1 for _ in (folder / f"{name}.output.jsonl").open())
    if process.returncode or answers != count:
        raise RuntimeError(f"{answers} of {count} lines were answered")
    return Run(seconds, used.ru_maxrss / 1024)


def measure(folder: Path, model: str, counts: tuple[int, int], where: Sequence[str]) -> Figures:
    """Answer a short and a long file."""
    short, long = (run(folder, model, count, where) for count in counts)
    rate = (counts[1] - counts[0]) / (long.seconds - short.seconds)
    say(f"{model} {where}: {rate:.1f} lines/s, {short}, {long}")
    return Figures(rate, short, long)


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
        "lines that a graph gives back. Rates are of the lines that the long file has more; "
        "seconds are of the whole command, start and",
        "end included. The memory is that of the command's own process.",
        "",
        "| lines | where | lines/s | tokens/s | seconds, short and long | MB, short and long |",
        "|---|---|---|---|---|---|",
    ]
    for (model, where), each in found.items():
        tokens = f"{each.rate * TOKENS:,.0f}" if model == "demo" else ""
        lines.append(
            f"| {model} | {where} | {each.rate:,.1f} | {tokens} | {each.short.seconds:.0f}, "
            f"{each.long.seconds:.0f} | {each.short.mebibytes:.0f}, {each.long.mebibytes:.0f} |"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", metavar="FILE", type=Path)
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
    print(text, end="")
    if options.write is not None:
        options.write.write_text(text)


if __name__ == "__main__":
    main()
