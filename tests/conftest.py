"""Options, fixtures and plug-ins of every test."""

from __future__ import annotations

import signal
import sys
from importlib.metadata import entry_points

import pytest
from hypothesis import is_hypothesis_test

from tests import example_counts, tiers
from tests.hanging_tests import HangingTests
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


def pytest_configure(config: pytest.Config) -> None:
    example_counts.load_profile(config.getoption("--examples"))
    config.pluginmanager.register(tiers.Tiers(config), "tiers")
    if not entry_points(group="graphrt.tasks"):
        raise pytest.UsageError(
            "the installed graphrt has older entry points than pyproject.toml, so that no task "
            "would be found: run `python -m pip install --no-deps -e .` again"
        )
    config.pluginmanager.register(HangingTests(config), "hanging tests")
    # Under nohup a hang-up is ignored, by the servers that tests start too.
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_sessionfinish() -> None:
    process = sys.modules.get("tests.servers.cli.process")
    if process is not None:
        process.commands.close()


def pytest_unconfigure() -> None:
    _reaper.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for command in _reaper.end_all():
        terminalreporter.write_line(f"left running by a test, ended now: {command}")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    # In a worker pytest-cov 7.1 measures twice: once as if there were no workers, and once for
    # them, which begins here. The first measurement is never reported, takes half of the time, and
    # continues in tests marked no_cover.
    plugin = session.config.pluginmanager.getplugin("_cov")
    controller = getattr(plugin, "cov_controller", None)
    if hasattr(session.config, "workerinput") and controller is not None:
        controller.cov.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Code that random inputs happen to reach is not coverage, and measuring it takes longer than
    # the tests do.
    for item in items:
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            item.add_marker(pytest.mark.no_cover)
