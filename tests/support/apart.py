"""Objects that can end their process, in processes of their own.

A native library may abort. In the process of the tests that would end all that run there; here the
call that it happens in fails, and the next one makes the object again, in a new process.

    python -m tests.support.apart DESCRIPTOR PARENT

serves one object on a socket. Like other children of tests it is a fork (`forked_children`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from calculators.kit.child_process import early_start
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE


class Apart:
    """An object in a process of its own, which is made at once and ends with this one."""

    def __init__(self, make: Callable[..., object], *arguments: object) -> None:
        """Make the object.

        Arguments:
            make: A function or class that a module has by its name.
            arguments: What it is called with.
        """
        self._made_by = (make, arguments)
        self._is_open = False
        self._open()

    def call(self, name: str, *arguments: object, **options: object) -> Any:
        """Call a method, or read an attribute; what it raises is raised here."""
        if not self._is_open:
            self._open()
        return self._ask(name, (name, arguments, options))

    def close(self) -> None:
        """End the process now."""
        self._is_open = False
        self._finalizer()

    def _open(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = early_start.start_module(
                "tests.support.apart", (theirs.fileno(),), None, dict(os.environ)
            )
        self._connection = Connection(ours.detach())
        self._is_open = True
        self._finalizer = weakref.finalize(self, _end, self._process, self._connection)
        self._ask("__init__", (_data_file(), *self._made_by))

    def _ask(self, name: str, question: object) -> Any:
        try:
            # An end that this runs into is found by reading.
            with contextlib.suppress(ConnectionError):
                self._connection.send(question)
            value, error = self._connection.recv()
        except (EOFError, ConnectionError):
            # Not at the top, as the process of the object imports this module too.
            import pytest

            self._is_open = False
            code = self._process.wait(PATIENCE)
            pytest.fail(f"the process ended with exit code {code} in {name}()")
        if error is not None:
            raise error
        return value


def _end(process: Any, connection: Connection) -> None:
    connection.close()
    process.wait(PATIENCE)


def _data_file() -> str | None:
    """Return where the coverage of this process goes, if it is measured now."""
    coverage = sys.modules.get("coverage")
    current = None if coverage is None else coverage.Coverage.current()
    return None if current is None else current.config.data_file


# In the process of the object ---------------------------------------------------------------------


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    with contextlib.suppress(EOFError, ConnectionError):
        data_file, make, arguments = connection.recv()
        with _measured(data_file):
            _serve(connection, make, arguments)


def _serve(connection: Connection, make: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    try:
        made = make(*arguments)
    except Exception as error:
        connection.send((None, error))
        return
    connection.send((None, None))
    while True:
        name, words, options = connection.recv()
        try:
            value = getattr(made, name)
            if callable(value):
                value = value(*words, **options)
        except Exception as error:
            connection.send((None, error))
        else:
            connection.send((value, None))


@contextlib.contextmanager
def _measured(data_file: str | None) -> Any:
    """Measure this process, beside the process of the tests, which combines what both have seen."""
    if data_file is None:
        yield
        return
    from coverage import Coverage

    measured = Coverage(
        data_file=data_file, data_suffix=True, config_file=str(ROOT / "pyproject.toml")
    )
    measured.start()
    try:
        yield
    finally:
        measured.stop()
        measured.save()


if __name__ == "__main__":
    main()
