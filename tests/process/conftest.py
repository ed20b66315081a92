"""One server with the demo model, shared by every test that leaves it unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.process.http_client import HttpClient
from tests.process.server_process import DEMO, ServerProcess

#: Modules of the project's extra ``clients``.
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
    """Fail in one line where the client libraries are missing."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        pytest.fail(
            f"the client libraries are not installed ({', '.join(missing)}): "
            "pip install -e '.[clients]'",
            pytrace=False,
        )


@pytest.fixture(scope="session")
def demo(child_program: None) -> Iterator[ServerProcess]:
    """Serve ``demo``. Tests that stop the server or its children start one of their own."""
    with ServerProcess(DEMO) as server:
        yield server


@pytest.fixture
def client(demo: ServerProcess) -> HttpClient:
    return demo.client
