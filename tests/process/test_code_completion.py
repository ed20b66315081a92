"""Code completion by a real server: the requests that editors send, as they send them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.calculators.llm.code_model import make_code_model
from tests.process.http_client import HttpClient
from tests.process.server_process import ServerProcess

#: llama.vim's body; curl sends it.
VIM: Final[dict[str, Any]] = {
    "id_slot": 0,
    "input_prefix": "def add(a, b):\n",
    "input_suffix": "\n\nprint(add(1, 2))\n",
    "input_extra": [{"text": "x = 1\n", "time": [1, 2], "filename": "one.py"}],
    "prompt": "    ",
    "n_predict": 16,
    "stop": [],
    "n_indent": 4,
    "top_k": 40,
    "top_p": 0.90,
    "samplers": ["top_k", "top_p", "infill"],
    "stream": False,
    "cache_prompt": True,
    "t_max_prompt_ms": 500,
    "t_max_predict_ms": 1000,
    "response_fields": [
        *("content", "timings/prompt_n", "timings/prompt_ms", "timings/prompt_per_token_ms"),
        *("timings/prompt_per_second", "timings/predicted_n", "timings/predicted_ms"),
        *("timings/predicted_per_token_ms", "timings/predicted_per_second"),
        *("truncated", "tokens_cached"),
    ],
}
#: Its body that makes the server compute a prompt before it is needed.
VIM_WARM_UP: Final[dict[str, Any]] = {
    "input_prefix": "",
    "input_suffix": "",
    "input_extra": VIM["input_extra"],
    "prompt": "",
    "n_predict": 0,
    "temperature": 0.0,
    "samplers": [],
    "stream": False,
    "cache_prompt": True,
    "t_max_prompt_ms": 1,
    "t_max_predict_ms": 1,
    "response_fields": [""],
}
#: llama.vscode's body.
VSCODE: Final[dict[str, Any]] = {
    "id_slot": 0,
    "input_prefix": "def add(a, b):\n",
    "input_suffix": "\n",
    "input_extra": [],
    "prompt": "    return ",
    "n_predict": 16,
    "n_cmpl": 1,
    "top_k": 40,
    "top_p": 0.99,
    "stream": False,
    "samplers": ["top_k", "top_p", "infill"],
    "cache_prompt": True,
    "t_max_prompt_ms": 500,
    "t_max_predict_ms": 2500,
}


@pytest.fixture(scope="module")
def editor(
    child_program: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("models") / "code"
    make_code_model(folder)
    with ServerProcess("--infill_supersede", folder) as server:
        yield server


def test_llama_vim_gets_the_members_that_it_asks_for(editor: ServerProcess) -> None:
    answer = editor.client.ask("POST", "/infill", VIM)
    assert answer.status == 200, answer.body
    assert set(answer.json) == set(VIM["response_fields"])
    assert isinstance(answer.json["content"], str)
    assert answer.json["timings/prompt_n"] > 0
    warm_up = editor.client.ask("POST", "/infill", VIM_WARM_UP)
    assert (warm_up.status, warm_up.json) == (200, {})


def test_llama_vscode_gets_the_text_and_what_its_status_bar_shows(editor: ServerProcess) -> None:
    answer = editor.client.ask("POST", "/infill", {**VSCODE, "ignore_eos": True}).json
    assert answer["stop"] is True
    assert answer["stop_type"] == "limit"
    assert answer["generation_settings"]["n_ctx"] == 4096
    assert answer["tokens_predicted"] == 16
    assert answer["timings"]["predicted_n"] == 16
    assert answer["tokens_cached"] == answer["tokens_evaluated"] + 16
    assert editor.client.get("/health").json == {"status": "ok"}


def test_a_stream_ends_with_its_counts(editor: ServerProcess) -> None:
    body = {**VSCODE, "stream": True, "ignore_eos": True, "return_tokens": True}
    with editor.client.open("POST", "/infill", body) as response:
        text = response.read().decode()
    *events, end = text.split("\n\n")
    assert end == ""
    pieces = [json.loads(event.removeprefix("data: ")) for event in events]
    assert [piece["stop"] for piece in pieces] == [*[False] * (len(pieces) - 1), True]
    assert sum(len(piece["tokens"]) for piece in pieces) == 16
    assert pieces[-1]["content"] == ""
    assert pieces[-1]["tokens_predicted"] == 16


def test_a_stream_has_the_tokens_of_a_whole_answer(editor: ServerProcess) -> None:
    asked = {**VSCODE, "return_tokens": True, "ignore_eos": True, "temperature": 0}
    first = editor.client.ask("POST", "/infill", asked).json
    assert len(first["tokens"]) == 16
    asked["stop"] = [first["content"][len(first["content"]) // 2]]
    whole = editor.client.ask("POST", "/infill", asked).json
    with editor.client.open("POST", "/infill", {**asked, "stream": True}) as response:
        events = response.read().decode().split("\n\n")[:-1]
    streamed = [token for event in events for token in json.loads(event[6:])["tokens"]]
    assert streamed == whole["tokens"]


def test_completions_of_llama_cpp_take_prompts_of_all_kinds(editor: ServerProcess) -> None:
    one = editor.client.ask("POST", "/completion", {"prompt": "a", "n_predict": 3}).json
    assert one["index"] == 0
    several = {"prompt": ["a", "b"], "n_predict": 3, "n_cmpl": 2}
    assert len(editor.client.ask("POST", "/completion", several).json) == 4
    ids = {"prompt": [5, 6, 7], "n_predict": 3, "model": "code"}
    assert editor.client.ask("POST", "/completion", ids).json["tokens_evaluated"] == 3


def test_answers_have_the_prompt_of_each_choice(editor: ServerProcess) -> None:
    several = {"prompt": ["a", "b"], "n_predict": 2, "n_cmpl": 2}
    answers = editor.client.ask("POST", "/completion", several).json
    assert [each["prompt"] for each in answers] == ["a", "a", "b", "b"]
    filled = editor.client.ask("POST", "/infill", {**VSCODE, "n_predict": 2}).json["prompt"]
    assert VSCODE["input_prefix"] in filled
    assert VSCODE["input_suffix"] in filled
    with editor.client.open("POST", "/completion", {**several, "stream": True}) as response:
        events = response.read().decode().split("\n\n")[:-1]
    last = [each for event in events if (each := json.loads(event[6:]))["stop"]]
    assert [each["prompt"] for each in last] == ["a", "a", "b", "b"]


def test_errors_have_llama_cpps_form(editor: ServerProcess, client: HttpClient) -> None:
    refused = editor.client.ask("POST", "/infill", {**VSCODE, "n_predict": "many"})
    assert refused.status == 400
    assert set(refused.json["error"]) == {"code", "message", "type"}
    assert refused.json["error"]["code"] == 400
    other = client.ask("POST", "/infill", VSCODE)
    assert other.status == 400
    assert "cannot fill in text" in other.json["error"]["message"]


def test_a_file_that_is_too_long_is_cut(editor: ServerProcess) -> None:
    long = {**VSCODE, "input_prefix": "line\n" * 20_000, "input_suffix": "end\n" * 20_000}
    answer = editor.client.ask("POST", "/infill", {**long, "ignore_eos": True})
    assert answer.status == 200, answer.body
    assert answer.json["tokens_evaluated"] <= 4096 - 16


def test_a_new_request_takes_the_place_of_the_one_before(editor: ServerProcess) -> None:
    endless = {**VSCODE, "n_predict": 3000, "ignore_eos": True, "t_max_predict_ms": 0}
    with editor.client.open("POST", "/infill", {**endless, "stream": True}) as first:
        first.readline()
        others = [{**endless, "user": name, "n_predict": 4} for name in ("a", "b")]
        for other in others:
            assert editor.client.ask("POST", "/infill", other).status == 200
        assert editor.client.ask("POST", "/infill", {**endless, "n_predict": 2}).status == 200
        rest = first.read().decode()
    *_, last = rest.removesuffix("\n\n").split("\n\n")
    assert "took the place" in json.loads(last.removeprefix("data: "))["error"]["message"]


def test_each_person_has_one_request_at_a_time(editor: ServerProcess) -> None:
    body = {**VSCODE, "n_predict": 2000, "ignore_eos": True, "t_max_predict_ms": 0, "user": "me"}
    with ThreadPoolExecutor(4) as pool:
        statuses = [
            reply.status
            for reply in pool.map(lambda _: editor.client.ask("POST", "/infill", body), range(4))
        ]
    assert statuses.count(200) == 1
    assert set(statuses) <= {200, 412}


def test_the_new_request_may_reach_another_worker(child_program: None, tmp_path: Path) -> None:
    make_code_model(tmp_path / "code")
    endless = {**VSCODE, "n_predict": 3000, "ignore_eos": True, "t_max_predict_ms": 0}
    body = {**endless, "stream": True}
    with (
        ServerProcess("--infill_supersede", "--workers", "2", tmp_path / "code") as server,
        ExitStack() as opened,
    ):
        # Each has a connection of its own, which the kernel gives to any worker.
        streams = []
        for _ in range(8):
            client = HttpClient(server.port)
            streams.append(opened.enter_context(client.open("POST", "/infill", body)))
            streams[-1].readline()
        for each in streams[:-1]:
            assert "took the place" in each.read().decode()
