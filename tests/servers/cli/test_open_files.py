"""As many connections as are allowed can be open, whatever a shell's limit says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.cli.serve import allow_open_files
from tests.servers.cli.process import commands
from tests.servers.cli.serving import Serving, make_site

resource = pytest.importorskip("resource")


@pytest.fixture(autouse=True)
def _limits_of_this_process_stay() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The process that forks commands, and gives them its limit, is started again.
    commands.close()
    yield
    commands.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_server_raises_the_limit_of_its_shell(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 < hard < 3024:
        pytest.skip("this machine allows no more files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    words = (make_site(tmp_path), "--max_connections", "2000")
    with Serving(tmp_path, *words).wait_until_serving() as server:
        soft, _ = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        assert soft == 3024
        assert "may open" not in "".join(server.log)


def test_where_it_cannot_be_raised_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = [(256, 700)]
    monkeypatch.setattr(resource, "getrlimit", lambda what: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda what, both: limits.append(both))
    allow_open_files(4096)
    monkeypatch.undo()
    assert limits[-1] == (700, 700)
    assert "this process may open 700 files only: too few for 4096" in capsys.readouterr().err
