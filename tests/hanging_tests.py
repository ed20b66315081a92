"""Tests that hang fail, and the run goes on to its list of failures.

pytest-timeout's alarm guards a test as a whole, with pytest's own work on its result: an alarm in
there ends the run with an internal error. So it is set for each phase of a test, and nothing else.
The plug-in's own alarm, for the call alone, is set within the one for the call, and is the same.
An alarm needs the interpreter; where an extension never gives it back, a thread ends the process,
and prints what has failed so far.
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

#: So much later than the alarm: it did not help.
_GRACE_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 5.0


class HangingTests:
    """A plug-in for pytest, which has ``timeout_func_only`` set."""

    def __init__(self, config: pytest.Config, grace_seconds: float = _GRACE_SECONDS) -> None:
        self._config = config
        self._grace_seconds = grace_seconds
        self._ends_at: float | None = None
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
        # A worker has none: whoever started it says which test it was at.
        reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.summary_errors()
            reporter.summary_failures()
            reporter.short_test_summary()
            reporter.write_line(f"FAILED {os.environ.get('PYTEST_CURRENT_TEST')}: it hangs")
        sys.stdout.flush()
        os._exit(1)
