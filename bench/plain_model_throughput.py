"""Throughput of a plain model through gRPC and REST, beside OpenVINO's own `AsyncInferQueue`.

    python -m bench.plain_model_throughput [--seconds S] [--write FILE]

A model of about five milliseconds on one core, compiled for throughput, gets one picture FP32
[1, 12288] after the other: from an `AsyncInferQueue` in a process without a server, from clients of
`graphrt serve`, which are a process of their own, and from clients of a handler of `grpcio` or
aiohttp that only runs the model (`bench.bare_model_server`), the best that a server on these
libraries can do. All have the same number of infer requests, and twice as many clients. They take
turns; medians count. Clients and server share the machine's cores with the model, so every
microsecond of theirs is missing there; `lean` clients use no library and cost least.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final, NamedTuple

import numpy as np
import openvino
from openvino import opset13

from bench.infer_clients import INPUT
from bench.machine import ServerProcess, add_write, cpu_seconds, describe_machine, publish

MODEL: Final = "pictures"
AIM: Final = 0.95
REPEATS: Final = 5
_SIDE: Final = 64
ELEMENTS: Final = 3 * _SIDE * _SIDE
_CHANNELS: Final = 32
_LAYERS: Final = 14
_COMPILED_FOR: Final = {"PERFORMANCE_HINT": "THROUGHPUT"}
_QUEUE: Final = "AsyncInferQueue"
_FRONTS: Final = ("grpc", "rest")
_AIMED_AT: Final = "gRPC, lean clients"


class Way(NamedTuple):
    """A way to the model: its front, its clients, and whether the front does nothing else."""

    front: str
    clients: str
    is_bare: bool


_WAYS: Final = {
    "bare gRPC handler, lean clients": Way("grpc", "grpc-frames", is_bare=True),
    _AIMED_AT: Way("grpc", "grpc-frames", is_bare=False),
    "gRPC, clients of grpcio": Way("grpc", "grpc", is_bare=False),
    "bare HTTP handler, lean clients": Way("rest", "rest", is_bare=True),
    "REST, lean clients": Way("rest", "rest", is_bare=False),
}


def make_model(place: Path) -> None:
    """Write a chain of 3 by 3 convolutions with the means of its channels at the end."""
    generator = np.random.default_rng(1)
    data = opset13.parameter([1, ELEMENTS], np.float32, INPUT)
    data.output(0).set_names({INPUT})
    picture = np.array([1, 3, _SIDE, _SIDE], np.int64)
    found: Any = opset13.reshape(data, opset13.constant(picture), False)
    channels = 3
    for _ in range(_LAYERS):
        weights = generator.standard_normal((_CHANNELS, channels, 3, 3), np.float32) / channels
        found = opset13.relu(
            opset13.convolution(found, opset13.constant(weights), [1, 1], [1, 1], [1, 1], [1, 1])
        )
        channels = _CHANNELS
    found = opset13.reduce_mean(found, opset13.constant(np.array([2, 3], np.int64)), False)
    found.output(0).set_names({"out"})
    place.mkdir(parents=True)
    openvino.save_model(openvino.Model([found], [data], MODEL), place / "model.xml")


def by_queue(compiled: Any, requests: int, seconds: float) -> float:
    """Inferences per second by an `AsyncInferQueue`."""
    sums: list[float] = []
    queue = openvino.AsyncInferQueue(compiled, requests)
    queue.set_callback(
        lambda request, _: sums.append(float(request.get_output_tensor(0).data[0, 0]))
    )
    array = np.zeros((1, ELEMENTS), np.float32)
    started = perf_counter()
    while perf_counter() - started < seconds:
        queue.start_async({0: array})
    queue.wait_all()
    return len(sums) / (perf_counter() - started)


@contextmanager
def bare_server(front: str, model: Path) -> Iterator[tuple[str, int]]:
    """Run a server that only runs the model; return its address and process id."""
    settings = [f"{name}={value}" for name, value in _COMPILED_FOR.items()]
    command = [sys.executable, "-m", "bench.bare_model_server", front, str(model), str(ELEMENTS)]
    with subprocess.Popen([*command, *settings], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{int(process.stdout.readline())}", process.pid
        finally:
            process.terminate()


class Turn(NamedTuple):
    """Inferences per second, and the milliseconds of processor time for each.

    Attributes:
        server: of the server's process, with the model's.
        clients: of the clients' process.
    """

    rate: float
    server: float
    clients: float


def by_clients(protocol: str, address: str, pid: int, clients: int, seconds: float) -> Turn:
    """Measure a server by clients in a process of their own."""
    before = cpu_seconds(pid)
    # The least answer that counts is four bytes per element: the output has 32 of them.
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench.infer_clients", protocol, address, MODEL),
            *(str(clients), str(seconds), str(ELEMENTS), str(4 * _CHANNELS)),
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    server = (cpu_seconds(pid) - before) / (found["requests"] + clients)
    return Turn(found["rate"], server * 1e3, found["cores"] / found["rate"] * 1e3)


def page(seconds: float) -> str:
    """Measure everything; return the table as Markdown."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        directory = Path(folder, MODEL)
        make_model(directory / "1")
        file = directory / "1" / "model.xml"
        entry = {"name": MODEL, "base_path": str(directory), "plugin_config": _COMPILED_FOR}
        config = Path(folder, "config.json")
        config.write_text(json.dumps({"model_config_list": [{"config": entry}]}), encoding="utf-8")
        compiled = openvino.Core().compile_model(file, "CPU", _COMPILED_FOR)
        requests = int(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        alone = compiled.create_infer_request()
        array = np.zeros((1, ELEMENTS), np.float32)
        alone.infer({0: array})
        started = perf_counter()
        for _ in range(20):
            alone.infer({0: array})
        milliseconds = (perf_counter() - started) * 50
        server = stack.enter_context(ServerProcess(config, "--port", "auto"))
        pid = server.pids["server"]
        servers = {
            ("grpc", False): (server.grpc_address, pid),
            ("rest", False): (server.address, pid),
            **{(each, True): stack.enter_context(bare_server(each, file)) for each in _FRONTS},
        }
        turns: dict[str, list[Turn]] = {name: [] for name in (_QUEUE, *_WAYS)}
        for _ in range(REPEATS):
            used = process_time()
            rate = by_queue(compiled, requests, seconds)
            used = (process_time() - used) / (rate * seconds)
            turns[_QUEUE].append(Turn(rate, used * 1e3, 0.0))
            for name, way in _WAYS.items():
                target = servers[way.front, way.is_bare]
                turns[name].append(by_clients(way.clients, *target, 2 * requests, seconds))
    limit = median(turn.rate for turn in turns[_QUEUE])
    lines = [
        "# A plain model behind KServe",
        "",
        f"`python -m bench.plain_model_throughput` on {describe_machine()}; openvino "
        f"{openvino.get_version().partition('-')[0]}. A model of {milliseconds:.1f} ms, {requests} "
        f"infer requests, {2 * requests} clients, which share the machine with it. Medians "
        f"(minimum to maximum) of {REPEATS} turns of {seconds:g} s. The ratio is to "
        f"{_QUEUE} in the same turn. A bare handler only runs the model: nothing on its library "
        f"can be faster. CPU is in milliseconds per inference.",
        "",
        "| way | inferences/s | server's CPU with the model's | clients' CPU | ratio |",
        "|---|---|---|---|---|",
    ]
    for name, found in turns.items():
        pairs = zip(found, turns[_QUEUE], strict=True)
        ratios = [turn.rate / queue.rate for turn, queue in pairs]
        rates = [turn.rate for turn in found]
        lines.append(
            f"| {name} | {median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f}) "
            f"| {median(turn.server for turn in found):.2f} "
            f"| {median(turn.clients for turn in found):.2f} "
            f"| {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |"
        )
    reached = median(turn.rate for turn in turns[_AIMED_AT]) / limit >= AIM
    lines += [
        "",
        f"The aim, {AIM} of {_QUEUE} through gRPC: {'reached' if reached else 'missed'}.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write to a file if requested."""
    parser = argparse.ArgumentParser(prog="python -m bench.plain_model_throughput")
    parser.add_argument("--seconds", type=float, default=2.5)
    add_write(parser)
    words = parser.parse_args()
    text = page(words.seconds)
    publish(text, words.write)


if __name__ == "__main__":
    main()
