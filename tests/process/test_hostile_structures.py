"""Hostile structures are refused with clear errors while another stream continues.

The waiting times are measured by ``tests.reliability.hostile``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.calculators.llm.demo_model import ONE_THREAD
from tests.calculators.llm.graph_texts import loop_with
from tests.process.existing_graphs import make_model
from tests.process.hostile_structures import (
    EITHER,
    REFUSED,
    TEMPLATES,
    hostile_template,
    text_of,
)
from tests.process.http_client import CHAT, HELLO, HttpClient, Reply
from tests.process.neighbour import Neighbour
from tests.process.server_process import ServerProcess
from tests.support.patience import PATIENCE


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Serve the demo model with a template that fails on request."""
    graph = loop_with(f"models_path: './', plugin_config: '{json.dumps(ONE_THREAD)}'")
    folder = make_model(tmp_path_factory.mktemp("templated") / "demo", graph)
    path = folder / "chat_template.jinja"
    own = path.read_text(encoding="utf-8")
    path.unlink()
    path.write_text(hostile_template(own), encoding="utf-8")
    with ServerProcess(folder) as server:
        yield server


@pytest.fixture(scope="module")
def beside(server: ServerProcess) -> Iterator[Neighbour]:
    """Run a neighbour, whose streams must all be whole in the end."""
    with Neighbour(server.client) as neighbour:
        yield neighbour


def wait_for_grammars(client: HttpClient) -> None:
    """Wait until a grammar process has started: the first, or one after a form took too long."""
    form: dict[str, Any] = {"guided_choice": ["a", "b"], "max_tokens": 2}
    reply = answered(lambda: client.post(CHAT, messages=HELLO, **form))
    assert reply.status == 200, reply.body


def answered(ask: Callable[[], Reply]) -> Reply:
    """Return the answer to a client that retries on 503: on a busy machine processes start late."""
    ends = time.monotonic() + PATIENCE
    while True:
        reply = ask()
        if reply.status != 503 or time.monotonic() > ends:
            return reply
        time.sleep(float(reply.headers["retry-after"]))


def ask_beside(server: ServerProcess, neighbour: Neighbour, ask: Callable[[], Reply]) -> Reply:
    """Send a request; check that the neighbour still reads and no process has ended."""
    wait_for_grammars(server.client)
    children = server.lasting_children()
    reply = answered(ask)
    assert neighbour.is_reading
    assert server.lasting_children() == children
    return reply


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_structure_is_refused_beside_a_stream(
    server: ServerProcess, beside: Neighbour, name: str
) -> None:
    members, status, param = REFUSED[name]
    body = text_of(members)
    reply = ask_beside(server, beside, lambda: server.client.ask("POST", CHAT, body))
    assert reply.status == status, reply.body
    error = reply.error
    assert error["type"] == "invalid_request_error"
    assert 10 < len(error["message"]) <= 512
    if param is None:
        assert error["param"] is None
    else:
        assert error["param"].startswith(param)


@pytest.mark.parametrize("name", EITHER)
def test_an_expensive_structure_is_answered_or_refused_beside_a_stream(
    server: ServerProcess, beside: Neighbour, name: str
) -> None:
    body = text_of(EITHER[name])
    reply = ask_beside(server, beside, lambda: server.client.ask("POST", CHAT, body))
    assert reply.status in (200, 400), reply.body
    assert reply.status == 200 or reply.error["param"]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_failing_template_refuses_its_request_only(
    server: ServerProcess, beside: Neighbour, name: str
) -> None:
    messages = [{"role": "user", "content": name}]
    reply = ask_beside(server, beside, lambda: server.client.post(CHAT, messages=messages))
    assert reply.status == 400, reply.body
    assert reply.error["type"] == "invalid_request_error"
    assert TEMPLATES[name].message in reply.error["message"]
