"""What holds for every test."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

# A busy machine makes examples slowly; that is no finding.
settings.register_profile("graphrt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("graphrt")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    # In a worker pytest-cov 7.1 measures twice: once as if there were no workers, and once for
    # them, which begins here. The first is never reported, takes half of the time, and goes on in
    # tests marked no_cover.
    plugin = session.config.pluginmanager.getplugin("_cov")
    controller = getattr(plugin, "cov_controller", None)
    if hasattr(session.config, "workerinput") and controller is not None:
        controller.cov.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # What random inputs happen to reach is no coverage, and measuring it takes longer than they do.
    for item in items:
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            item.add_marker(pytest.mark.no_cover)
