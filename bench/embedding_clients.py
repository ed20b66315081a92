"""Clients that ask a server for embeddings, in a process of their own.

    python -m bench.embedding_clients ADDRESS PATH MODEL CLIENTS SECONDS TOKENS

Each client has a connection and one text in flight, as base64 like openai's client. Prints one line
of JSON: texts per second, median and 99th percentile of the milliseconds to an answer, and the
number of all texts, with those before measuring began.
"""

from __future__ import annotations

import asyncio
import json
import sys
from time import perf_counter

import numpy as np
import uvloop

from bench.encoder_model import text_of
from bench.infer_clients import HttpClient

_TEXTS = 64


def _requests(host: str, path: str, model: str, tokens: int) -> list[bytes]:
    made = []
    for seed in range(_TEXTS):
        value = {"model": model, "input": text_of(tokens, seed), "encoding_format": "base64"}
        body = json.dumps(value).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        made.append(head.encode() + body)
    return made


async def measure(
    address: str, path: str, model: str, clients: int, seconds: float, tokens: int
) -> dict[str, float]:
    """Return the figures of a closed loop of ``clients``."""
    host, _, port = address.partition(":")
    requests = _requests(address, path, model, tokens)
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def ask(number: int, until: float) -> None:
        _, client = await loop.create_connection(HttpClient, host, int(port))
        place = number
        while perf_counter() < until:
            begun = perf_counter()
            await client.ask(requests[place % len(requests)])
            times.append(perf_counter() - begun)
            place += 1

    async def run(for_seconds: float) -> float:
        begun = perf_counter()
        await asyncio.gather(*(ask(number, begun + for_seconds) for number in range(clients)))
        return perf_counter() - begun

    await run(min(1.0, seconds))  # every shape of a batch is prepared once
    earlier = len(times)
    times.clear()
    taken = await run(seconds)
    return figures(times, taken, earlier)


def figures(times: list[float], taken: float, earlier: int) -> dict[str, float]:
    """Return rate, median and 99th percentile of answers that took ``times`` seconds.

    ``earlier``: the number of answers before, which the processor time of all has to be divided by.
    """
    middle, late = np.percentile(np.array(times) * 1e3, [50, 99])
    rate = len(times) / taken
    return {"rate": rate, "p50": float(middle), "p99": float(late), "all": len(times) + earlier}


if __name__ == "__main__":
    address, path, model, clients, seconds, tokens = sys.argv[1:]
    measured = uvloop.run(measure(address, path, model, int(clients), float(seconds), int(tokens)))
    print(json.dumps(measured))
