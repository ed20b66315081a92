"""Time limits of tests: a test that hangs fails, and the run ends with its list of failures.

pytest-timeout's alarm guards a test as a whole, with pytest's own work on its result: an alarm in
there ends the run with an internal error. So it is set for each phase of a test, and nothing else.
The plug-in's own alarm, for the call alone, is set within the one for the call, and is the same.
An alarm is a call in the main thread; where that never comes, a thread ends the process and prints
what has failed so far. Where an extension even keeps the interpreter's lock, the thread is silent,
and faulthandler, which needs no lock, ends the process. A worker that ends is replaced, and the run
goes on.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Generator
from typing import Any, Final

import pytest
import pytest_timeout

#: Seconds after the alarm at which it has not helped.
_GRACE_SECONDS: Final = 120.0
#: Seconds without a turn of the thread: longer than on any machine that is only busy.
_SILENCE_SECONDS: Final = 720.0
_LOOK_SECONDS: Final = 5.0


class HangingTests:
    """A plug-in for pytest, which has ``timeout_func_only`` set."""

    def __init__(
        self,
        config: pytest.Config,
        grace_seconds: float = _GRACE_SECONDS,
        silence_seconds: float = _SILENCE_SECONDS,
    ) -> None:
        self._config = config
        self._grace_seconds = grace_seconds
        self._silence_seconds = silence_seconds
        self._ends_at: float | None = None
        # Not the one that tests write to, which is captured.
        self._stderr = os.dup(2)
        threading.Thread(target=self._watch, name="hanging tests", daemon=True).start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item))

    def _phase(self, item: pytest.Item) -> Generator[None, object, object]:
        settings = pytest_timeout._get_item_settings(item)
        if not settings.timeout:
            return (yield)
        hooks: Any = item.ihook
        self._ends_at = time.monotonic() + settings.timeout + self._grace_seconds
        hooks.pytest_timeout_set_timer(item=item, settings=settings)
        try:
            return (yield)
        finally:
            hooks.pytest_timeout_cancel_timer(item=item)
            self._ends_at = None

    # In the thread --------------------------------------------------------------------------------

    def _watch(self) -> None:
        while True:
            # One timer every few seconds: pytest's own would be a thread for every test.
            faulthandler.dump_traceback_later(self._silence_seconds, exit=True, file=self._stderr)
            time.sleep(min(_LOOK_SECONDS, self._grace_seconds))
            ends_at = self._ends_at
            if ends_at is not None and time.monotonic() > ends_at:
                self._end()

    def _end(self) -> None:
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)
        print("a test hangs, and cannot be ended; the run ends", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(file=sys.__stderr__ or 2)
        # A worker has no list of failures: the process that started it reports which test it ran.
        reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.summary_errors()
            reporter.summary_failures()
            reporter.short_test_summary()
            reporter.write_line(f"FAILED {os.environ.get('PYTEST_CURRENT_TEST')}: it hangs")
        sys.stdout.flush()
        os._exit(1)
