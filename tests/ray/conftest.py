"""Fixtures of several files of tests on Ray."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[None]:
    """Servers start a cluster, whatever else runs on this machine, with a token of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", "local")
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        yield
