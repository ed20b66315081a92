"""Other servers of embeddings, each with a Python that has it installed."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
