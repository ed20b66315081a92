"""Other servers of the OpenAI API, to be measured beside `graphrt serve`, and their settings.

Each has its fastest settings: no prefix caching (no two prompts of the workload share a prefix), no
parsing of answers, 64 streams at once, weights of 16 bits.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Self

from bench.peer_models import PeerModel
from bench.server_process import ServerProcess

STREAMS: Final = 64
#: Tokens of the longest request of `bench.workload`, with some room.
CONTEXT: Final = 2048
_MODEL: Final = "model"
#: Seconds within which a server must answer; vLLM compiles its model first.
_START: Final = 900.0
_STOP: Final = 30.0
_GIBIBYTES_OF_CACHE: Final = "4"


class Target(Protocol):
    """A server that answers. ``url`` includes the path where it differs from graphrt's."""

    url: str
    model: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to start a server. ``reconnect``: every request needs a new connection."""

    server: str
    words: str
    start: Callable[[], AbstractContextManager[Target]]
    reconnect: bool = False


class PeerProcess:
    """A server in a process of its own. Use it as a context manager."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it on a free port and wait until it answers.

        Raises:
            RuntimeError: the server ended, or did not answer in time.
        """
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/v1/chat/completions"
        self.model = _MODEL
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (see close)
        self._process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            # Its children are in its process group and end with it.
            start_new_session=True,
        )
        try:
            self._wait(f"http://127.0.0.1:{port}/health")
        except BaseException:
            self.close()
            raise

    def _wait(self, url: str) -> None:
        end = time.monotonic() + _START
        while not _answers(url):
            if self._process.poll() is not None or time.monotonic() > end:
                self._log.seek(0)
                said = self._log.read()[-3000:]
                raise RuntimeError(f"{self._process.args!r} does not answer:\n{said}")
            time.sleep(0.2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server and its children."""
        self._process.terminate()
        try:
            self._process.wait(_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._log.close()


def graphrt(directory: Path) -> list[Setting]:
    """Return the settings of graphrt: those of the graph in the directory."""
    return [Setting("graphrt", "as its graph says", partial(ServerProcess, directory))]


def llama_cpp(program: Path, model: PeerModel, types: Sequence[str]) -> list[Setting]:
    """Return the settings of llama-server: all cores or one less, by type of matrices."""

    def setting(kind: str, threads: int) -> Setting:
        command = [
            *(str(program), "--model", str(model.gguf[kind]), "--alias", _MODEL),
            *("--parallel", str(STREAMS), "--ctx-size", str(STREAMS * CONTEXT)),
            *("--threads", str(threads), "--no-cache-prompt", "--cache-ram", "0", "--no-ui"),
            *("--skip-chat-parsing", "--reasoning", "off", "--log-verbosity", "1"),
        ]
        start = partial(PeerProcess, command, {})
        # llama-server closes the connection after a streamed answer whose head says keep-alive.
        return Setting("llama.cpp", f"{kind}, -t {threads}", start, reconnect=True)

    cores = len(os.sched_getaffinity(0))
    threads = (cores, cores - 1) if cores > 1 else (cores,)
    return [setting(kind, number) for kind in types for number in threads]


def vllm(program: Path, model: PeerModel, scratch: Path) -> list[Setting]:
    """Return the settings of vLLM: its own choice of compute threads, and one per core.

    Compiled code is kept in ``scratch`` for the next start.
    """

    def setting(words: str, bind: str) -> Setting:
        command = [
            *(str(program), "serve", str(model.hugging_face), "--served-model-name", _MODEL),
            *("--dtype", "bfloat16", "--max-num-seqs", str(STREAMS)),
            *("--max-model-len", str(CONTEXT), "--no-enable-prefix-caching"),
            *("--generation-config", "vllm", "--disable-uvicorn-access-log"),
        ]
        environment = {
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_CPU_OMP_THREADS_BIND": bind,
            "VLLM_CPU_KVCACHE_SPACE": _GIBIBYTES_OF_CACHE,
            "VLLM_CACHE_ROOT": str(scratch / "vllm"),
            "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "PATH": f"{program.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        return Setting("vLLM", words, partial(PeerProcess, command, environment))

    cores = sorted(os.sched_getaffinity(0))
    every = ",".join(map(str, cores))
    return [
        setting("bfloat16, threads: auto", "auto"),
        setting(f"bfloat16, {len(cores)} threads", every),
    ]


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
