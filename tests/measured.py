"""Coverage is measured where it can find something new: on Python 3.11 that takes most of the time.

The tracer slows down everything in the process, libraries and the tests themselves too. So it runs
only while modules of ours are imported, and in tests. All workers import the same modules to find
their tests, so there one of them measures for all. It rests while tests run

- whose inputs are random: code that they happen to reach is not coverage;
- that ask programs: what runs in these is not measured anyway;
- with further parameters of a function for which two in a row have reached nothing new;
- that are marked `unmeasured`: large amounts of what small tests measure.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import is_hypothesis_test
from xdist import is_xdist_controller

from tests.tiers import Tier, tier_of

#: Sets of parameters in a row that have reached nothing new, after which no more are measured.
_ENOUGH: Final = 2
_FIRST: Final = "gw0"
_OURS: Final = frozenset(
    {"graphrt", "graphrt_base", "protos", "graph_runtime", "calculators", "servers"}
)


class Measured:
    """A plug-in for pytest with pytest-cov."""

    def __init__(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "unmeasured: coverage rests (tests/measured.py)")
        self._config = config
        self._coverage: Any = None
        worker = getattr(config, "workerinput", {}).get("workerid", _FIRST)
        self._measures_imports = worker == _FIRST
        # By file, for tests/file_times.py.
        self._is_by_file = config.getoption("--file-times") is not None
        self._file = ""
        self._is_measuring = False
        self._in_vain: Counter[str] = Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        plugin = self._config.pluginmanager.getplugin("_cov")
        controller = getattr(plugin, "cov_controller", None)
        if controller is None:
            return
        # In a worker pytest-cov 7.1 begins twice: once as if there were no workers, which is never
        # reported, and once for them.
        while (running := type(controller.cov).current()) is not None:
            running.stop()
        if is_xdist_controller(session):
            return
        _import_without_hook("filelock")
        self._coverage = controller.cov
        # At each start it would look through all modules.
        self._coverage._warn_preimported_source = False
        self._measure_imports()

    def pytest_collection_finish(self) -> None:
        self._measures_imports = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        function = item.nodeid.partition("[")[0]
        if self._coverage is None or self._in_vain[function] >= _ENOUGH or not _is_measured(item):
            return (yield)
        with self._measuring():
            if self._is_by_file and (file := item.nodeid.partition("::")[0]) != self._file:
                self._file = file
                self._coverage.switch_context(file)
            before = self._reached()
            result = yield
            is_in_vain = self._reached() == before
        self._in_vain[function] = self._in_vain[function] + 1 if is_in_vain else 0
        return result

    @contextmanager
    def _measuring(self) -> Iterator[None]:
        if self._is_measuring:
            yield
            return
        self._coverage.start()
        self._is_measuring = True
        try:
            yield
        finally:
            self._is_measuring = False
            self._coverage.stop()

    def _measure_imports(self) -> None:
        execute = SourceFileLoader.exec_module

        def execute_measured(loader: SourceFileLoader, module: ModuleType) -> None:
            if self._measures_imports and module.__name__.partition(".")[0] in _OURS:
                with self._measuring():
                    execute(loader, module)
            else:
                execute(loader, module)

        SourceFileLoader.exec_module = execute_measured  # type: ignore[assignment, method-assign]

    def _reached(self) -> int:
        """Return the number of steps from line to line that have been seen in this process."""
        return sum(map(len, self._coverage._collector.data.values()))


def _import_without_hook(name: str) -> None:
    """Import a module that otherwise adds a function to those that hear what CPython audits.

    While such a function runs for a thread that sets its trace function, the next thread that
    begins is refused: "Cannot install a trace function while another trace function is being
    installed". filelock 3.32 adds one to warn of forks.
    """
    with patch.object(sys, "addaudithook"), suppress(ImportError):
        import_module(name)


def _is_measured(item: pytest.Item) -> bool:
    if item.get_closest_marker("unmeasured") is not None or tier_of(item) is Tier.FULL:
        return False
    return not (isinstance(item, pytest.Function) and is_hypothesis_test(item.obj))
