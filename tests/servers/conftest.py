"""Fixtures of several rooms of the servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.model_store.store_servers import S3Server

#: Variables that decide how stores are reached, which tests set themselves.
_PREFIXES = ("AWS_", "S3_", "AZURE_", "GOOGLE_", "STORAGE_EMULATOR")


@pytest.fixture(scope="session")
def running_s3() -> Iterator[S3Server]:
    """A server of S3's protocol, which all tests of a worker share."""
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def store_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment that names no store, with a home and a cache of the test's own."""
    for name in os.environ:
        if name.startswith(_PREFIXES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


@pytest.fixture
def s3(
    child_program: None, running_s3: S3Server, store_environment: pytest.MonkeyPatch
) -> S3Server:
    """The server of S3's protocol, which the environment names, with keys for it."""
    store_environment.setenv("S3_ENDPOINT", running_s3.endpoint)
    store_environment.setenv("AWS_ACCESS_KEY_ID", "key-of-the-test")
    store_environment.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-test")
    return running_s3


@pytest.fixture
def bucket(s3: S3Server, request: pytest.FixtureRequest) -> str:
    """The name of an empty bucket."""
    name = f"b{abs(hash(request.node.nodeid)):x}"
    s3.make_bucket(name)
    return name
