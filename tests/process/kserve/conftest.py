"""One server for all clients of this folder, and the facts of each client."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.process.http_client import COMPLETIONS
from tests.process.kserve.asked import DEMOS, LANGUAGE_MODEL, MAX_TOKENS, PROMPT, SPARE_OF
from tests.process.kserve.site import make_site
from tests.process.server_process import ServerProcess
from tests.servers.cli.process import environment
from tests.support.checkout import ROOT

#: The facts of a client.
Seen = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="package")
def server(
    client_libraries: None, child_program: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    config = make_site(tmp_path_factory.mktemp("kserve"))
    with ServerProcess(config, "--port", "auto", "--drain_seconds", "10") as running:
        yield running
        # Abandoned requests have ended: none is in flight when all clients have ended.
        running.send_signal()
        assert running.wait() == 0
        assert "cut off" not in "".join(running.log)


@pytest.fixture(scope="package")
def seen(server: ServerProcess) -> Iterator[Seen]:
    """Return the facts of a client. Two run at a time: most of their time is importing."""
    addresses = f"127.0.0.1:{server.port}", server.wait_for_log(r"serves grpc://(\S+)")[1]
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = {name: pool.submit(_run, *addresses, name) for name in (*SPARE_OF, DEMOS)}

        def seen_by(name: str) -> dict[str, Any]:
            done = running[name].result()
            assert done.returncode == 0, done.stderr
            facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return facts

        yield seen_by
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="package")
def text(server: ServerProcess) -> str:
    """Return the language model's answer to the clients' prompt, from OpenAI's endpoint."""
    asked = {"prompt": PROMPT, "max_tokens": MAX_TOKENS, "temperature": 0}
    reply = server.client.post(COMPLETIONS, **{"model": LANGUAGE_MODEL, **asked})
    text: str = reply.json["choices"][0]["text"]
    return text


def _run(rest: str, grpc: str, name: str) -> subprocess.CompletedProcess[str]:
    environ = {key: text for key, text in environment().items() if "proxy" not in key.lower()}
    return subprocess.run(
        [sys.executable, "-m", __package__, rest, grpc, name],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
