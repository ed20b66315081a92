"""Commands of the documents, run with this interpreter and on free ports."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.servers.cli.process import COMMAND, environment
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

#: Address of the servers in the documents.
ADDRESS: Final = "http://127.0.0.1:8000"
GRPC_PORT: Final = "9000"


def run_shell(command: str, folder: Path, *, path: Sequence[Path] = ()) -> str:
    """Return the output of a shell command, in which ``graphrt`` is this checkout's.

    Raises:
        AssertionError: the command failed or wrote to standard error.
    """
    variables = environment()
    variables["PYTHONPATH"] = ":".join(map(str, (*path, ROOT)))
    done = subprocess.run(
        ["sh", "-c", command.replace("graphrt ", f"{shlex.join(COMMAND)} ")],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


def run_python(file: str, folder: Path) -> str:
    """Return the output of a script."""
    return run_shell(f"{shlex.quote(sys.executable)} {file}", folder)


@contextmanager
def served(command: str, folder: Path | None = None) -> Iterator[Serving]:
    """Run the server of a ``graphrt serve`` command; without a folder, in an empty one."""
    words = shlex.split(command)
    assert words[:2] == ["graphrt", "serve"]
    words = ["auto" if word == GRPC_PORT else word for word in words[2:]]
    with (
        TemporaryDirectory() as empty,
        Serving(folder or Path(empty), *words, calculators=()) as server,
    ):
        yield server.wait_until_serving()


def asked(command: str, server: Serving, folder: Path = ROOT) -> str:
    """Return the output of a command of the documents, sent to this server instead of theirs."""
    assert ADDRESS in command
    return run_shell(command.replace(ADDRESS, f"http://127.0.0.1:{server.port}"), folder)
