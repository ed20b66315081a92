"""`graphrt serve` started by systemd: it reports when it is up, and when it stops."""

from __future__ import annotations

import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.servers.cli.serving import Serving, make_site
from tests.support.patience import PATIENCE


@pytest.fixture(params=["file", "abstract"])
def manager(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """Return the socket of a service manager, under a name of both kinds."""
    if request.param == "abstract" and sys.platform != "linux":
        pytest.skip("only Linux has abstract names")
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as channel:
        channel.settimeout(PATIENCE)
        if request.param == "file":
            name = str(tmp_path / "notify")
            channel.bind(name)
        else:
            name = f"@graphrt-{secrets.token_hex(8)}"
            channel.bind(f"\0{name[1:]}")
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield channel


def test_the_manager_learns_of_start_and_stop(manager: socket.socket, tmp_path: Path) -> None:
    with Serving(tmp_path, make_site(tmp_path)) as server:
        assert manager.recv(100) == b"READY=1"
        server.wait_until_serving()
        assert server.get("/v2/health/ready")[0] == 200
        server.send_signal(signal.SIGTERM)
        assert manager.recv(100) == b"STOPPING=1"
        assert server.end()[0] == 0


def test_a_manager_that_is_gone_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nothing"))
    with Serving(tmp_path, make_site(tmp_path)) as server:
        server.wait_until_serving()
        assert server.get("/v2/health/ready")[0] == 200
    assert "the service manager cannot be notified of READY=1" in "".join(server.log)
