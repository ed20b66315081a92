"""A server of SmolLM2 for all tests of this folder, as `graphrt serve FILE` serves it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.downloads import smollm2_path
from tests.process.http_client import HttpClient
from tests.process.server_process import ServerProcess


@pytest.fixture(scope="session")
def gguf() -> Path:
    """Return the file, or skip."""
    path = smollm2_path()
    if not path.is_file():
        pytest.skip("SmolLM2 is not here: `python -m bench.downloads smollm2` downloads it (98 MB)")
    return path


@pytest.fixture(scope="session")
def smollm2(gguf: Path, child_program: None) -> Iterator[ServerProcess]:
    with ServerProcess(gguf, "--model_name", "smollm2") as server:
        yield server


@pytest.fixture
def client(smollm2: ServerProcess) -> HttpClient:
    return smollm2.client


@pytest.fixture(scope="session")
def scoring(gguf: Path, child_program: None) -> Iterator[HttpClient]:
    """Return a client of a server that computes with the file's own numbers, and rounds nothing."""
    options = ("--model_name", "smollm2", "--exact", "true")
    with ServerProcess(gguf, *options) as server:
        yield server.client
