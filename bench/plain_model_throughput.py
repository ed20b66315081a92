"""Throughput of a plain model through gRPC and REST, beside OpenVINO's own `AsyncInferQueue`.

    python -m bench.plain_model_throughput [--seconds S] [--write FILE]

A model of three to five milliseconds on one core, compiled for throughput, gets one picture FP32
[1, 12288] after the other: from an `AsyncInferQueue` in a process without a server, and from
clients of `graphrt serve`, which are a process of their own. All have the same number of infer
requests, and twice as many clients. They take turns; medians count. Clients and server share the
machine's cores with the model, so every microsecond of theirs is missing there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
import openvino
from openvino import opset13

from bench.infer_clients import INPUT
from bench.machine import describe_machine
from bench.processes import cpu_seconds
from bench.server_process import ServerProcess

MODEL: Final = "pictures"
AIM: Final = 0.95
REPEATS: Final = 5
_SIDE: Final = 64
ELEMENTS: Final = 3 * _SIDE * _SIDE
_CHANNELS: Final = 32
_LAYERS: Final = 9
_COMPILED_FOR: Final = {"PERFORMANCE_HINT": "THROUGHPUT"}


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


def by_clients(protocol: str, address: str, clients: int, seconds: float) -> float:
    """Inferences per second by clients in a process of their own."""
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
    return float(json.loads(done.stdout)["rate"])


def page(seconds: float) -> str:
    """Measure everything; return the table as Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder, MODEL)
        make_model(directory / "1")
        entry = {"name": MODEL, "base_path": str(directory), "plugin_config": _COMPILED_FOR}
        config = Path(folder, "config.json")
        config.write_text(json.dumps({"model_config_list": [{"config": entry}]}), encoding="utf-8")
        compiled = openvino.Core().compile_model(
            directory / "1" / "model.xml", "CPU", _COMPILED_FOR
        )
        requests = int(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        alone = compiled.create_infer_request()
        array = np.zeros((1, ELEMENTS), np.float32)
        alone.infer({0: array})
        started = perf_counter()
        for _ in range(20):
            alone.infer({0: array})
        milliseconds = (perf_counter() - started) * 50
        rates: dict[str, list[float]] = {"AsyncInferQueue": [], "gRPC": [], "REST": []}
        cpu: dict[str, list[float]] = {"gRPC": [], "REST": []}
        with ServerProcess(config, "--port", "auto") as server:
            addresses = {"gRPC": server.grpc_address, "REST": server.address}
            pid = server.pids["server"]
            for _ in range(REPEATS):
                rates["AsyncInferQueue"].append(by_queue(compiled, requests, seconds))
                for name, address in addresses.items():
                    before = cpu_seconds(pid)
                    rate = by_clients(name.lower(), address, 2 * requests, seconds)
                    rates[name].append(rate)
                    cpu[name].append((cpu_seconds(pid) - before) / (rate * seconds) * 1e3)
    limit = median(rates["AsyncInferQueue"])
    lines = [
        "# A plain model behind KServe",
        "",
        f"`python -m bench.plain_model_throughput` on {describe_machine()}; openvino "
        f"{openvino.get_version().partition('-')[0]}. A model of {milliseconds:.1f} ms, {requests} "
        f"infer requests, {2 * requests} clients, which share the machine with it. Medians "
        f"(minimum to maximum) of {REPEATS} turns of {seconds:g} s.",
        "",
        "| way | inferences/s | server's CPU with the model's, ms | ratio |",
        "|---|---|---|---|",
    ]
    for name, found in rates.items():
        spent = f"{median(cpu[name]):.2f}" if name in cpu else ""
        lines.append(
            f"| {name} | {median(found):.0f} ({min(found):.0f} to {max(found):.0f}) | {spent} "
            f"| {median(found) / limit:.2f} |"
        )
    reached = median(rates["gRPC"]) / limit >= AIM
    lines += [
        "",
        f"The aim, {AIM} of AsyncInferQueue through gRPC: {'reached' if reached else 'missed'}.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write to a file if requested."""
    parser = argparse.ArgumentParser(prog="python -m bench.plain_model_throughput")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--write", type=Path, metavar="FILE")
    words = parser.parse_args()
    text = page(words.seconds)
    print(text)
    if words.write is not None:
        words.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
