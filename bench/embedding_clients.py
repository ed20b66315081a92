"""Clients that ask a server for embeddings, in a process of their own.

    python -m bench.embedding_clients ADDRESS PATH MODEL CLIENTS SECONDS TOKENS

Each client has a connection and one text in flight, as base64 like openai's client. They share the
machine's processors with the server, so they do no more than the calls of the system: requests are
bytes that are prepared, and of an answer only the status and the length are read. An event loop
with a protocol for each connection takes several times as much. Prints one line of JSON: texts per
second, median and 99th percentile of the milliseconds to an answer, the number of all texts, with
those before measuring began, and the clients' own microseconds of processor time for each of them.

Servers of embeddings to measure beside graphrt run in a Python that has them installed.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from time import perf_counter, process_time
from typing import Final

from bench.random_model import text_of

_START_SECONDS: Final = 180.0

#: sentence-transformers behind FastAPI, as its users write it: a thread for each request.
_FASTAPI: Final = """
import base64, sys
import uvicorn
from fastapi import FastAPI
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(sys.argv[1], device="cpu")
app = FastAPI()

@app.get("/health")
def health():
    return {}

@app.post("/v1/embeddings")
def embeddings(body: dict):
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    rows = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    return {"object": "list", "data": data, "model": "m", "usage": {}}

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
"""


@dataclass
class Peer:
    """A running server.

    Attributes:
        address: its host and port.
        path: the path for embeddings.
        model: the name that it knows its model by.
    """

    process: subprocess.Popen[bytes]
    address: str
    path: str
    model: str

    def close(self) -> None:
        """End the server."""
        self.process.terminate()
        self.process.wait(30)


def start_sentence_transformers(python: str, checkpoint: Path) -> Peer:
    """Start sentence-transformers behind FastAPI."""
    port = _free_port()
    command = [python, "-c", _FASTAPI, str(checkpoint), str(port)]
    return _started(command, port, "/v1/embeddings", "m")


def start_infinity(python: str, checkpoint: Path) -> Peer:
    """Start infinity-emb with its torch engine."""
    port = _free_port()
    command = [
        *(python, "-m", "infinity_emb.cli", "v2", "--model-id", str(checkpoint)),
        *("--served-model-name", "m", "--engine", "torch", "--device", "cpu"),
        *("--host", "127.0.0.1", "--port", str(port), "--log-level", "error"),
    ]
    return _started(command, port, "/embeddings", "m")


def _started(command: list[str], port: int, path: str, model: str) -> Peer:
    process = subprocess.Popen(command)
    address = f"127.0.0.1:{port}"
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://{address}/health"):
                return Peer(process, address, path, model)
        except (urllib.error.URLError, ConnectionError):
            if process.poll() is not None:
                break
            time.sleep(0.2)
    process.kill()
    raise RuntimeError(f"{command[0]} did not start a server of embeddings")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


_TEXTS: Final = 64
#: Bytes that are read at once: more than an answer with a vector as base64.
_READ: Final = 256 * 1024
_OK: Final = b"HTTP/1.1 200"
_LENGTH: Final = b"content-length:"
_HEAD_END: Final = b"\r\n\r\n"
#: Seconds after which a server that answers nobody is given up.
_PATIENCE: Final = 60.0


class _Client:
    """A connection, and the answer that it waits for."""

    __slots__ = ("connection", "missing", "place", "sent")

    def __init__(self, address: tuple[str, int], place: int) -> None:
        self.connection = socket.create_connection(address)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.place = place
        self.sent = 0.0
        #: Bytes of the answer that are still to come; 0 before its head.
        self.missing = 0

    def take(self, data: bytes) -> bool:
        """Take a part of an answer; return whether it is the last one.

        Raises:
            RuntimeError: the answer has another status than 200, or the connection was closed.
        """
        if self.missing and data:
            self.missing -= len(data)
        else:
            head, end, body = data.partition(_HEAD_END)
            if not end or not head.startswith(_OK):
                raise RuntimeError(f"no answer, but {data[:1000]!r}")
            head = head.lower()
            at = head.index(_LENGTH) + len(_LENGTH)
            self.missing = int(head[at:].partition(b"\r")[0]) - len(body)
        return not self.missing


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


def _run(clients: list[_Client], requests: list[bytes], seconds: float) -> list[float]:
    """Ask for ``seconds``, and until all is answered; return the seconds to each answer."""
    times: list[float] = []
    waiting = {client.connection.fileno(): client for client in clients}
    poll = select.epoll()
    until = perf_counter() + seconds
    for descriptor, client in waiting.items():
        poll.register(descriptor, select.EPOLLIN)
        client.sent = perf_counter()
        client.connection.sendall(requests[client.place % len(requests)])
    asking = len(clients)
    while asking:
        ready = poll.poll(_PATIENCE)
        if not ready:
            raise RuntimeError(f"no answer in {_PATIENCE:g} s")
        for descriptor, _ in ready:
            client = waiting[descriptor]
            if not client.take(client.connection.recv(_READ)):
                continue
            now = perf_counter()
            times.append(now - client.sent)
            if now >= until:
                asking -= 1
                continue
            client.place += 1
            client.sent = now
            client.connection.sendall(requests[client.place % len(requests)])
    poll.close()
    return times


def measure(
    address: str, path: str, model: str, clients: int, seconds: float, tokens: int
) -> dict[str, float]:
    """Return the figures of a closed loop of ``clients``."""
    host, _, port = address.partition(":")
    requests = _requests(address, path, model, tokens)
    made = [_Client((host, int(port)), number) for number in range(clients)]
    began = process_time()
    earlier = len(_run(made, requests, min(1.0, seconds)))  # prepares every shape of a batch
    begun = perf_counter()
    times = _run(made, requests, seconds)
    found = figures(times, perf_counter() - begun, earlier)
    for client in made:
        client.connection.close()
    return {**found, "clients": (process_time() - began) / found["all"] * 1e6}


def figures(times: list[float], taken: float, earlier: int) -> dict[str, float]:
    """Return rate, median and 99th percentile of answers that took ``times`` seconds.

    ``earlier``: the number of answers before, which the processor time of all has to be divided by.
    """
    cuts = quantiles([each * 1e3 for each in times], n=100, method="inclusive")
    rate = len(times) / taken
    return {"rate": rate, "p50": cuts[49], "p99": cuts[98], "all": len(times) + earlier}


if __name__ == "__main__":
    address, path, model, clients, seconds, tokens = sys.argv[1:]
    measured = measure(address, path, model, int(clients), float(seconds), int(tokens))
    print(json.dumps(measured))
