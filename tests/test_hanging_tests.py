"""Runs with tests that hang end with their list of failures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.servers.cli.process import environment
from tests.support.nested_runs import WITHOUT_PLUGINS
from tests.support.patience import PATIENCE

_CONFTEST = """
from tests.hanging_tests import HangingTests

def pytest_configure(config):
    config.pluginmanager.register(HangingTests(config, grace_seconds=GRACE, silence_seconds=10))
"""
_HANGING = """
import threading, pytest

@pytest.fixture
def for_ever():
    threading.Event().wait()

@pytest.fixture
def ends_never():
    yield
    threading.Event().wait()

def test_in_setup(for_ever): pass
def test_in_the_call(): threading.Event().wait()
def test_in_teardown(ends_never): pass
def test_that_is_well(): pass
"""
_DEAF = """

def test_that_fails(): assert False
def test_that_hears_no_alarm():
    import signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    import threading
    threading.Event().wait()
"""
#: A call through `PyDLL` keeps the lock.
_KEEPING = """
def test_that_keeps_the_lock():
    import signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    import ctypes
    ctypes.PyDLL(None).sleep(100_000)
def test_that_is_well(): pass
"""


def run_tests(
    folder: Path, tests: str, *words: str, grace_seconds: float = 0.5
) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text(
        "[pytest]\ntimeout = 1\ntimeout_method = signal\ntimeout_func_only = true\n"
    )
    (folder / "conftest.py").write_text(_CONFTEST.replace("GRACE", str(grace_seconds)))
    (folder / "test_it.py").write_text(tests)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--rootdir", str(folder), "-ra", *WITHOUT_PLUGINS, *words],
        cwd=folder,
        env={**environment(), "COVERAGE_PROCESS_START": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_each_phase_of_a_test_may_hang(tmp_path: Path) -> None:
    # On a busy machine too, each alarm helps within the grace.
    done = run_tests(tmp_path, _HANGING, grace_seconds=PATIENCE)
    assert done.returncode == 1
    summary = done.stdout.partition("short test summary")[2]
    assert "ERROR test_it.py::test_in_setup" in summary
    assert "FAILED test_it.py::test_in_the_call" in summary
    assert "ERROR test_it.py::test_in_teardown" in summary
    assert "1 failed, 2 passed, 2 errors" in summary


def test_a_test_that_blocks_the_alarm_ends_the_run_with_the_failures_so_far(tmp_path: Path) -> None:
    done = run_tests(tmp_path, _DEAF, "-k", "fails or alarm")
    assert done.returncode == 1
    summary = done.stdout.partition("short test summary")[2]
    assert "FAILED test_it.py::test_that_fails" in summary
    assert "FAILED test_it.py::test_that_hears_no_alarm (call): it hangs" in summary
    assert "in test_that_hears_no_alarm" in done.stderr


def test_a_worker_that_blocks_the_alarm_is_replaced(tmp_path: Path) -> None:
    done = run_tests(tmp_path, _DEAF + _HANGING, "-n", "1", "-k", "fails or alarm or well")
    assert done.returncode == 1
    summary = done.stdout.partition("short test summary")[2]
    assert "FAILED test_it.py::test_that_fails" in summary
    assert "FAILED test_it.py::test_that_hears_no_alarm" in summary
    assert "2 failed, 1 passed" in summary


def test_a_worker_whose_interpreter_is_never_given_back_is_replaced(tmp_path: Path) -> None:
    done = run_tests(tmp_path, _KEEPING, "-n", "1")
    assert done.returncode == 1
    summary = done.stdout.partition("short test summary")[2]
    assert "FAILED test_it.py::test_that_keeps_the_lock" in summary
    assert "1 failed, 1 passed" in summary
    assert "in test_that_keeps_the_lock" in done.stderr
