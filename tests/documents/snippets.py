"""Commands of the documents, run with this interpreter and on free ports."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.checkout import ROOT
from tests.patience import PATIENCE
from tests.servers.cli.process import COMMAND, environment
from tests.servers.cli.serving import Serving

#: Where the servers of the documents listen.
ADDRESS: Final = "http://127.0.0.1:8000"
GRPC_PORT: Final = "9000"


def run_shell(command: str, folder: Path, *, path: Sequence[Path] = ()) -> str:
    """The output of a shell's command, in which ``graphrt`` is this checkout's.

    Raises:
        AssertionError: it failed or wrote to standard error.
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
    """The output of a script."""
    return run_shell(f"{shlex.quote(sys.executable)} {file}", folder)


@contextmanager
def served(command: str, folder: Path = ROOT) -> Iterator[Serving]:
    """The server that a ``graphrt serve`` command starts."""
    words = shlex.split(command)
    assert words[:2] == ["graphrt", "serve"]
    words = ["auto" if word == GRPC_PORT else word for word in words[2:]]
    with Serving(folder, *words, calculators=()) as server:
        yield server.wait_until_serving()


def asked(command: str, server: Serving, folder: Path = ROOT) -> str:
    """The output of a command that asks the documents' server, asked of this one."""
    assert ADDRESS in command
    return run_shell(command.replace(ADDRESS, f"http://127.0.0.1:{server.port}"), folder)
