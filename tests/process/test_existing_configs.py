"""Configurations and graphs of OpenVINO Model Server are served as they are."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.process.existing_graphs import NAMES, make_site
from tests.process.http_client import CHAT, HELLO
from tests.process.server_process import ServerProcess
from tests.process.stream_law import read_stream

every_name = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    config = make_site(tmp_path_factory.mktemp("site"))
    # Existing start scripts run it from another directory, too.
    more = ("--port", "9000", "--rest_workers", "2")
    with ServerProcess("--config_path", config, *more, cwd=config.parents[1]) as server:
        yield server


def test_the_readiness_check_of_its_guides_says_available(server: ServerProcess) -> None:
    statuses = server.client.get("/v1/config").json
    assert set(statuses) == set(NAMES)
    for name in NAMES:
        assert statuses[name]["model_version_status"] == [
            {
                "version": "1",
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": "OK"},
            }
        ]
    assert server.is_ready()


@every_name
def test_a_model_is_found_by_its_name(server: ServerProcess, name: str) -> None:
    models = server.client.get("/v3/models").json["data"]
    assert name in [model["id"] for model in models]
    for written in (name, quote(name, safe="")):
        assert server.client.get(f"/v3/models/{written}").json["id"] == name


@every_name
def test_a_model_answers_under_its_name(server: ServerProcess, name: str) -> None:
    asked = {"model": name, "messages": HELLO, "temperature": 0, "max_tokens": 20}
    answer = server.client.post(CHAT, **asked).json
    assert answer["model"] == name
    with server.client.stream(CHAT, **asked) as response:
        stream = read_stream(response.read())
    assert stream.chunks[0]["model"] == name
    assert stream.text == answer["choices"][0]["message"]["content"]


def test_the_guides_requests_are_answered(server: ServerProcess) -> None:
    llama = NAMES[0]
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "What is OpenVINO?"},
    ]
    chat = server.client.post(CHAT, model=llama, max_tokens=30, stream=False, messages=messages)
    assert chat.status == 200
    assert set(chat.json) >= {"choices", "created", "model", "object", "usage"}
    prompt = "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nWhat is OpenVINO?"
    completion = server.client.post(
        "/v3/completions", model=llama, max_tokens=30, stream=False, prompt=prompt
    )
    assert completion.status == 200
    assert completion.json["object"] == "text_completion"
    assert completion.json["usage"]["completion_tokens"] <= 30
