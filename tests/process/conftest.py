"""One server with the demo model for every test that leaves it as it was."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.process.http_client import HttpClient
from tests.process.server_process import DEMO, ServerProcess

#: What the extra ``clients`` of the project brings.
_LIBRARIES = (
    "agents",
    "anthropic",
    "instructor",
    "kserve",
    "langchain_openai",
    "litellm",
    "llama_index",
    "openai",
    "pydantic_ai",
    "tritonclient",
)


@pytest.fixture(scope="session")
def client_libraries() -> None:
    """Fails, in one line, what needs the client libraries when they are not there."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        pytest.fail(
            f"the client libraries are not installed ({', '.join(missing)}): "
            "pip install -e '.[clients]'",
            pytrace=False,
        )


@pytest.fixture(scope="session")
def demo(child_program: None) -> Iterator[ServerProcess]:
    """Serves ``demo``. What stops it or its children has a server of its own."""
    with ServerProcess(DEMO) as server:
        yield server


@pytest.fixture
def client(demo: ServerProcess) -> HttpClient:
    return demo.client
