"""The time from a client's leaving to the end of its node's call, with and without `--on ray`.

    python -m bench.cancel_on_ray [--write FILE] [--streams N]

A node sends an event and waits. The client reads it and closes its connection; the node notes when
its call is cancelled. In that moment a node with a language model cancels at its engine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.batch_on_ray import GRAPH
from bench.machine import ServerProcess, add_write, describe_machine, publish

#: Milliseconds that a cancellation may take.
AIM: Final = 200
#: Seconds after which a cancellation is lost.
_LOST: Final = 30.0

_CALCULATOR: Final = '''\
import asyncio
import time
from pathlib import Path

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class WaitForCancel(Calculator):
    """Sends an event, waits, and writes the time when it is cancelled."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    async def process(self, cc: CalculatorContext) -> None:
        file = Path(cc.get(self.request).parsed_json["file"])
        cc.emit(self.response, "data: first\\n\\n", at=0)
        cc.flush()
        try:
            await asyncio.Event().wait()
        finally:
            part = file.with_suffix(".part")
            part.write_text(str(time.monotonic()))
            part.rename(file)
'''


def write_site(folder: Path) -> Path:
    """Write the graph and its config.json; return the config's path."""
    (folder / "waits.py").write_text(_CALCULATOR)
    (folder / "waits").mkdir()
    (folder / "waits" / "graph.pbtxt").write_text(GRAPH.replace("CALCULATOR", "WaitForCancel"))
    graphs = [{"name": "waits", "scale": {"min_replicas": 2, "num_cpus": 0.1}}]
    config = folder / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": graphs}))
    return config


def cancelled_after(address: str, file: Path) -> float:
    """Return the milliseconds from the close of a stream's connection to the node's end.

    Raises:
        TimeoutError: the node was not cancelled.
    """
    body = json.dumps({"model": "waits", "stream": True, "file": str(file)})
    connection = http.client.HTTPConnection(address, timeout=_LOST)
    connection.request("POST", "/v3/chat/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if not response.readline().startswith(b"data: first"):
        raise RuntimeError(f"no stream, but a status of {response.status}")
    left = time.monotonic()
    response.close()
    connection.close()
    while not file.exists():
        if time.monotonic() - left > _LOST:
            raise TimeoutError(f"the node was not cancelled within {_LOST:g} s")
        time.sleep(0.002)
    return 1000 * (float(file.read_text()) - left)


def measure(folder: Path, streams: int, *more: str) -> list[float]:
    """Return the milliseconds of each stream, on a server with these further arguments."""
    arguments = ("--calculators", str(folder / "waits.py"), *more)
    with ServerProcess(folder / "config.json", *arguments) as server:
        return [
            cancelled_after(server.address, folder / f"{'-'.join(more)}{number}")
            for number in range(streams)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    add_write(parser)
    parser.add_argument("--streams", type=int, default=100, help="streams that are left (100)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_site(folder)
        found = {
            "this process": measure(folder, args.streams),
            "`--on ray`": measure(folder, args.streams, "--on", "ray"),
        }
    lines = [
        "# Cancellation on Ray",
        "",
        f"`python -m bench.cancel_on_ray` on {describe_machine()}.",
        f"Milliseconds from the close of a client's connection to the end of the node's call, "
        f"{args.streams} streams one after the other; on Ray 2 replicas. The aim is {AIM} ms.",
        "",
        "| where | median | 95 % | longest |",
        "|---|---|---|---|",
    ]
    for where, times in found.items():
        high = statistics.quantiles(times, n=20)[-1]
        lines.append(
            f"| {where} | {statistics.median(times):.1f} | {high:.1f} | {max(times):.1f} |"
        )
    publish("\n".join(lines), args.write)


if __name__ == "__main__":
    main()
