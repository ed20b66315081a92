"""`examples/graphs/router`, served: a small model, and a large one that takes what is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.examples.served_model import ServedModel
from tests.servers.cli.serving import Serving
from tests.support.processes import children_of, module_of

MODEL: Final = ServedModel("router")
ENGINE: Final = "calculators.llm.engine"
SHORT: Final = "Hello!"
#: Fewer characters than the route of the small model takes, and more tokens than the model does.
MANY_TOKENS: Final = "What is the capital of France? " + "please " * 50
LONG: Final = "What is the capital of France? " + "please " * 60


@pytest.fixture(scope="module")
def server(child_program: None) -> Iterator[Serving]:
    with MODEL.serving() as serving:
        yield serving.wait_until_serving()


def chat(server: Serving, text: str, temperature: float = 0) -> tuple[int, dict[str, Any]]:
    return MODEL.chat(server, text, temperature=temperature, max_tokens=20)


def test_the_commands_of_the_comment_work() -> None:
    MODEL.check_comment(num_nodes=6)


@pytest.mark.parametrize(
    ("text", "route"), [(SHORT, "small"), (MANY_TOKENS, "large"), (LONG, "large")]
)
def test_the_answer_and_the_log_name_the_route(server: Serving, text: str, route: str) -> None:
    status, answer = chat(server, text)
    assert (status, answer["model"]) == (200, route)
    assert answer["choices"][0]["message"]["content"]
    shown = "small,large" if text == MANY_TOKENS else route
    server.wait_for(f"route='{shown}'")


@pytest.mark.parametrize("text", [SHORT, MANY_TOKENS])
def test_all_clients_get_one_answer_whole_and_streamed(server: Serving, text: str) -> None:
    MODEL.check_clients(server, text)


def test_every_event_of_a_stream_names_the_same_model(server: Serving) -> None:
    events = MODEL.events(server, MANY_TOKENS, max_tokens=5)
    assert {event["model"] for event in events} == {"large"}


def test_an_error_of_the_request_is_not_tried_again(server: Serving) -> None:
    status, answer = chat(server, SHORT, temperature=9)
    assert (status, answer["error"]["param"]) == (400, "temperature")


def test_with_the_small_engine_killed_requests_are_answered(server: Serving) -> None:
    engines = sorted(pid for pid in children_of(server.pid) if module_of(pid).startswith(ENGINE))
    assert len(engines) == 2
    os.kill(engines[0], signal.SIGKILL)  # of the node that was loaded first
    status, answer = chat(server, SHORT)
    assert status == 200, answer
    assert answer["choices"][0]["message"]["content"]
