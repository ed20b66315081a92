"""A child process whose output is followed until it ends, or this process has to."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

_WRAPPER: Final = Path(__file__).with_name("ended_with_parent.py")
#: Seconds between two checks of a child that is silent.
_PERIOD: Final = 0.2
#: Seconds that a child may take to end by itself.
_GRACE: Final = 5.0
_AT_ONCE: Final = 1 << 16


class ProcessStopped(BaseException):
    """A signal asks this process to end. ``number``: the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def run_followed(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    on_output: Callable[[bytes], None],
    on_silence: Callable[[], None],
) -> int:
    """Run a program to its end and return its exit status, negative for a signal.

    The program is in a session of its own. If an exception leaves this call, such as
    KeyboardInterrupt, the program and its children are ended first. If this process is killed,
    Linux kills the program.

    Args:
        command: the program's path and its arguments.
        on_output: receives what the program writes to standard output and error.
        on_silence: called when nothing has been written for a moment.

    Raises:
        OSError: the system has no process or descriptor left.
        Stopped: SIGTERM or SIGHUP has arrived; the caller should end the process by that signal.
    """
    with _signals_as_exceptions():
        return _followed(command, environment, on_output, on_silence)


def _followed(
    command: Sequence[str],
    environment: Mapping[str, str],
    on_output: Callable[[bytes], None],
    on_silence: Callable[[], None],
) -> int:
    child = subprocess.Popen(
        [sys.executable, "-I", str(_WRAPPER), str(os.getpid()), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        start_new_session=True,
    )
    try:
        assert child.stdout is not None
        with child.stdout as output, selectors.DefaultSelector() as selector:
            os.set_blocking(output.fileno(), False)
            selector.register(output, selectors.EVENT_READ)
            while True:
                # Grandchildren may keep the pipe open, so its end is not waited for.
                has_ended = child.poll() is not None
                if selector.select(0 if has_ended else _PERIOD):
                    data = os.read(output.fileno(), _AT_ONCE)
                    if data:
                        on_output(data)
                        continue
                    return child.wait()
                if has_ended:
                    return child.returncode
                on_silence()
    finally:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child and the processes that it started."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


@contextlib.contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """Raise `ProcessStopped` at the first SIGTERM or SIGHUP.

    Handlers belong to the main thread; elsewhere signals stay as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    has_arrived = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal has_arrived
        if not has_arrived:  # a second one must not interrupt the end of the child
            has_arrived = True
            raise ProcessStopped(number)

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
