"""Options, fixtures and plug-ins of every test."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Generator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests import example_counts, tiers
from tests.distribution import Distribution
from tests.file_times import Stopwatch
from tests.hanging_tests import HangingTests
from tests.measured import Measured
from tests.reaper import Reaper
from tests.tiers import child_program, in_process_engine

__all__ = ["child_program", "in_process_engine"]

_reaper = Reaper()


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers.add_option(parser)
    parser.addoption(
        "--examples",
        choices=example_counts.PROFILES,
        default="all",
        help="how many random examples to make",
    )
    parser.addoption("--file-times", type=Path, help="write the seconds of each file here")


def _replace_user_cache(config: pytest.Config) -> None:
    """Let servers keep converted models elsewhere; what was downloaded is still found."""
    usual = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "graphrt"
    caches = tempfile.TemporaryDirectory(prefix="graphrt-tests-")
    config.add_cleanup(caches.cleanup)
    ours = Path(caches.name) / "graphrt"
    ours.mkdir()
    # Not "models": servers and commands would find what happens to be there.
    for name, there in (("bench", "bench"), ("mediapipe", "mediapipe"), ("pulled", "models")):
        (ours / name).symlink_to(usual / there)
    os.environ["XDG_CACHE_HOME"] = caches.name


def pytest_configure(config: pytest.Config) -> None:
    _replace_user_cache(config)
    example_counts.load_profile(config.getoption("--examples"))
    config.pluginmanager.register(tiers.Tiers(config), "tiers")
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(Distribution(), "distribution")
    config.pluginmanager.register(Measured(config), "measured")
    file_times = config.getoption("--file-times")
    if file_times is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Stopwatch(file_times), "stopwatch")
    config.addinivalue_line("markers", "python_children: child processes start as in production")
    if not entry_points(group="graphrt.tasks"):
        raise pytest.UsageError(
            "the installed graphrt has older entry points than pyproject.toml, so that no task "
            "would be found: run `python -m pip install --no-deps -e .` again"
        )
    config.pluginmanager.register(HangingTests(config), "hanging tests")
    # Under nohup a hang-up is ignored, by the servers that tests start too.
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # Some twenty thousand tests are made at once and live until the end: no search for garbage has
    # to look at them, neither while they are made nor while one of them runs.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # Not imported before a test has imported what starts children.
    if "calculators.kit.child_process.child_process" in sys.modules:
        from tests.servers.cli import forked_children, process

        if item.get_closest_marker("python_children"):
            forked_children.start_children_by_python()
        else:
            forked_children.start_children_by(process.commands.fork)


def pytest_sessionfinish() -> None:
    process = sys.modules.get("tests.servers.cli.process")
    if process is not None:
        process.commands.close()


def pytest_unconfigure() -> None:
    _reaper.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for command in _reaper.end_all():
        terminalreporter.write_line(f"left running by a test, ended now: {command}")
