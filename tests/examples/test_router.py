"""`examples/graphs/router`, served: a small model, and a large one that takes what is left."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.checkout import ROOT
from tests.examples.text_clients import ask_with_clients
from tests.process.processes import children_of, module_of
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving

FOLDER: Final = "examples/graphs/router"
ENGINE: Final = "calculators.llm.engine"
SHORT: Final = "Hello!"
#: Fewer characters than the route of the small model takes, and more tokens than the model does.
MANY_TOKENS: Final = "What is the capital of France? " + "please " * 50
LONG: Final = "What is the capital of France? " + "please " * 60


@pytest.fixture(scope="module")
def server(child_program: None) -> Iterator[Serving]:
    with Serving(ROOT, FOLDER, calculators=()) as serving:
        yield serving.wait_until_serving()


def chat(server: Serving, text: str, **more: Any) -> tuple[int, dict[str, Any]]:
    messages = [{"role": "user", "content": text}]
    body = {"model": "router", "messages": messages, "temperature": 0, "max_tokens": 20, **more}
    with server.request("POST", "/v3/chat/completions", body) as response:
        return response.status, json.loads(response.read())


def test_the_commands_of_the_comment_work() -> None:
    text = (ROOT / FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve {FOLDER} --port 8000\n" in text
    file = f"{FOLDER}/graph.pbtxt"
    done = graphrt("validate", file, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}: ok (6 nodes)\n", "")


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
    facts = ask_with_clients(f"http://127.0.0.1:{server.port}", "router", text)
    assert facts["chat"] == facts["chat stream"]
    assert facts["chat"][0]
    assert facts["responses"] == facts["responses stream"]
    assert facts["responses pieces"] == facts["responses"][0] == facts["chat"][0]
    assert facts["messages"] == facts["messages stream"]
    assert facts["messages pieces"] == facts["messages"][0] == facts["chat"][0]
    assert facts["completions"] == facts["completions stream"]
    assert facts["kserve"] == facts["kserve stream"]


def test_every_event_of_a_stream_names_the_same_model(server: Serving) -> None:
    body = {
        "model": "router",
        "messages": [{"role": "user", "content": MANY_TOKENS}],
        "stream": True,
        "max_tokens": 5,
    }
    with server.request("POST", "/v3/chat/completions", body) as response:
        events = response.read().decode().removesuffix("\n\n").split("\n\n")
    assert events.pop() == "data: [DONE]"
    assert {json.loads(event.removeprefix("data: "))["model"] for event in events} == {"large"}


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
