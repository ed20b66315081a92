"""Endpoints of vLLM, llama.cpp and text-generation-inference on a real server."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.process.http_client import COMPLETIONS, HttpClient
from tests.process.server_process import DEMO, ServerProcess
from tests.servers.cli.process import environment
from tests.support.checkout import ROOT

TEXT: Final = "What is"
#: Uses Hugging Face's client against a server, and prints what it saw as JSON.
HUB: Final = """
import json, sys, warnings
from dataclasses import asdict
from huggingface_hub import InferenceClient
warnings.simplefilter("ignore")
client = InferenceClient(sys.argv[1])
ask = lambda **more: client.text_generation("What is", max_new_tokens=8, **more)
seen = {
    "text": ask(),
    "full": ask(return_full_text=True),
    "details": asdict(ask(details=True, top_n_tokens=1)),
    "stream": "".join(ask(stream=True)),
    "tokens": [asdict(each) for each in ask(stream=True, details=True)],
    "stopped": asdict(ask(details=True, stop=["name"])),
    "number": ask(grammar={"type": "regex", "value": "[0-9]{3}"}),
}
try:
    ask(temperature=9.0)
except Exception as error:
    seen["error"] = [type(error).__name__, str(error)]
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def shown(child_program: None) -> Iterator[HttpClient]:
    """Serve the demo with what an operator may show."""
    with ServerProcess("--show_tokenizer", DEMO) as server:
        yield server.client


def posted(client: HttpClient, path: str, **body: Any) -> Any:
    reply = client.ask("POST", path, body)
    assert reply.status == 200, reply.body
    return reply.json


# text-generation-inference ------------------------------------------------------------------------


def test_hugging_faces_client_generates_text(demo: ServerProcess) -> None:
    run = subprocess.run(
        [sys.executable, "-c", HUB, demo.url],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    asked = {"prompt": TEXT, "max_tokens": 8, "temperature": 0}
    expected = demo.client.post(COMPLETIONS, **asked).json["choices"][0]["text"]
    assert seen["text"] == seen["stream"] == expected
    assert seen["full"] == TEXT + expected
    details = seen["details"]["details"]
    assert (details["finish_reason"], details["generated_tokens"]) == ("length", 8)
    assert "".join(token["text"] for token in details["tokens"]) == expected
    assert all(token["logprob"] < 0 for token in details["tokens"])
    assert len(details["top_tokens"]) == 8
    *tokens, last = seen["tokens"]
    assert "".join(each["token"]["text"] for each in tokens) == expected
    assert last["generated_text"] == expected
    assert last["details"]["input_length"] == 2
    assert seen["stopped"]["details"]["finish_reason"] == "stop_sequence"
    assert seen["stopped"]["generated_text"].endswith(" the ")
    assert len(seen["number"]) == 3
    assert seen["number"].isdigit()
    assert seen["error"][0] == "ValidationError"
    assert "parameters.temperature" in seen["error"][1]


def test_generate_answers_with_one_object_and_streams_by_its_path(client: HttpClient) -> None:
    body = {"inputs": TEXT, "parameters": {"max_new_tokens": 4}}
    whole = posted(client, "/generate", **body)
    assert set(whole) == {"generated_text"}
    assert posted(client, "/", **body) == [whole]
    with client.open("POST", "/generate_stream", body) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        *events, end = response.read().decode().split("\n\n")
    assert end == ""
    assert json.loads(events[-1].removeprefix("data:"))["generated_text"] == whole["generated_text"]
    assert client.get("/info").json["max_total_tokens"] == 2048


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "inputs"),
        ({"inputs": 1}, "inputs"),
        ({"inputs": "x", "parameters": {"max_new_tokens": 0}}, "parameters.max_new_tokens"),
        ({"inputs": "x", "parameters": {"best_of": 2}}, "parameters.best_of"),
        ({"inputs": "x", "parameters": {"top_n_tokens": 5}}, "parameters.top_n_tokens"),
        ({"inputs": "x", "parameters": {"adapter_id": "a"}}, "parameters.adapter_id"),
        ({"inputs": "x", "parameters": {"grammar": {"type": "x"}}}, "parameters.grammar.type"),
        ({"inputs": "x", "parameters": [1]}, "parameters"),
    ],
)
def test_what_cannot_be_done_is_named(client: HttpClient, body: dict[str, Any], word: str) -> None:
    reply = client.ask("POST", "/generate", body)
    assert reply.status == 400
    assert f'"{word}"' in reply.json["error"]
    assert reply.json["error_type"] == "validation"


# Tokens -------------------------------------------------------------------------------------------


def test_tokens_have_the_form_of_the_server_whose_member_is_sent(client: HttpClient) -> None:
    vllm = posted(client, "/tokenize", prompt="Hello you", return_token_strs=True)
    assert vllm["token_strs"] == ["Hello", " you"]
    assert (vllm["count"], vllm["max_model_len"]) == (2, 2048)
    ids = vllm["tokens"]
    assert posted(client, "/tokenize", content="Hello you") == {"tokens": ids}
    pieces = posted(client, "/tokenize", content="Hello ü", with_pieces=True)["tokens"]
    parts = [piece["piece"] for piece in pieces]
    said = [bytes(part) if isinstance(part, list) else part.encode() for part in parts]
    assert b"".join(said).decode() == "Hello ü"
    spans = posted(client, "/tokenize", inputs="Hello you")
    assert [(each["id"], each["start"], each["stop"]) for each in spans] == [
        (ids[0], 0, 5),
        (ids[1], 5, 9),
    ]
    assert posted(client, "/v1/tokenize", model="demo", text="Hello you") == {"tokens": ids}
    assert posted(client, "/detokenize", tokens=ids) == {
        "prompt": "Hello you",
        "content": "Hello you",
    }


def test_the_prompt_of_a_chat_is_what_a_chat_gets(client: HttpClient) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    prompt = posted(client, "/apply-template", messages=messages)["prompt"]
    assert prompt == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    tokens = posted(client, "/tokenize", messages=messages)["tokens"]
    assert posted(client, "/detokenize", tokens=tokens)["prompt"] == prompt
    chat = client.post("/v3/chat/completions", messages=messages, max_tokens=1).json
    assert chat["usage"]["prompt_tokens"] == len(tokens)
    without = posted(client, "/tokenize", messages=messages, add_generation_prompt=False)
    assert without["count"] < len(tokens)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "text"),
        ("/tokenize", {"prompt": 1}, "prompt"),
        ("/tokenize", {"prompt": "a", "text": "b"}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"content": "x" * 1_100_000}, "content"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "x"}, "tokens"),
        ("/detokenize", {"tokens": [1, True]}, "tokens[1]"),
        ("/detokenize", {"tokens": [1, 10**6]}, "tokens[1]"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
    ],
)
def test_a_wrong_text_or_token_is_named(
    client: HttpClient, path: str, body: dict[str, Any], param: str
) -> None:
    reply = client.ask("POST", path, body)
    assert (reply.status, reply.error["param"]) == (400, param)


# SGLang -------------------------------------------------------------------------------------------


def sglangs(client: HttpClient, **body: Any) -> Any:
    params = {"max_new_tokens": 4, "temperature": 0, **body.pop("sampling_params", {})}
    return posted(client, "/generate", sampling_params=params, **body)


def test_sglangs_clients_get_text_ids_and_facts(client: HttpClient) -> None:
    asked = {"prompt": TEXT, "max_tokens": 4, "temperature": 0}
    expected = client.post(COMPLETIONS, **asked).json["choices"][0]["text"]
    answer = sglangs(client, text=TEXT, return_logprob=True, return_text_in_logprobs=True, rid="r")
    assert answer["text"] == expected
    meta = answer["meta_info"]
    assert (meta["id"], meta["prompt_tokens"], meta["completion_tokens"]) == ("r", 2, 4)
    assert meta["finish_reason"] == {"type": "length", "length": 4}
    assert "".join(text for _, _, text in meta["output_token_logprobs"]) == expected
    assert [each for _, each, _ in meta["output_token_logprobs"]] == answer["output_ids"]
    ids = posted(client, "/tokenize", content=TEXT)["tokens"]
    assert sglangs(client, input_ids=ids)["text"] == expected
    several = sglangs(client, text=[TEXT, "Hello"], sampling_params={"n": 2})
    assert [each["text"] for each in several[:2]] == [expected] * 2
    assert [each["meta_info"]["prompt_tokens"] for each in several] == [2, 2, 1, 1]


def test_events_of_sglangs_have_all_text_so_far(client: HttpClient) -> None:
    params = {"max_new_tokens": 6, "temperature": 0, "stop": [" of"]}
    body = {"text": TEXT, "sampling_params": params}
    whole = posted(client, "/generate", **body)
    assert whole["meta_info"]["finish_reason"] == {"type": "stop", "matched": " of"}
    with client.open("POST", "/generate", {**body, "stream": True}) as response:
        *events, done, end = response.read().decode().split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    read = [json.loads(event.removeprefix("data: ")) for event in events]
    for before, after in itertools.pairwise(read):
        assert after["text"].startswith(before["text"])
    assert read[-1]["text"] == whole["text"]
    assert read[-1]["output_ids"] == whole["output_ids"]
    assert read[-1]["meta_info"]["finish_reason"] == whole["meta_info"]["finish_reason"]


@pytest.mark.parametrize(
    ("params", "pattern"),
    [
        ({"regex": "[0-9]{3}"}, "[0-9]{3}"),
        ({"json_schema": '{"enum": ["a", "b"]}', "regex": ""}, '"[ab]"'),
        ({"ebnf": 'root ::= "yes" | "no"'}, "yes|no"),
    ],
)
def test_sglangs_forms_bind_the_text(
    client: HttpClient, params: dict[str, Any], pattern: str
) -> None:
    text = sglangs(client, text=TEXT, sampling_params={**params, "max_new_tokens": 9})["text"]
    assert re.fullmatch(pattern, text.strip())


def test_a_prompt_of_sglangs_is_computed_without_an_answer(client: HttpClient) -> None:
    answer = sglangs(client, text=TEXT, sampling_params={"max_new_tokens": 0})
    assert (answer["text"], answer["output_ids"]) == ("", [])
    assert answer["meta_info"]["prompt_tokens"] == 2


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"text": 1}, '"text"'),
        ({"text": ""}, '"text"'),
        ({"text": "a", "input_ids": [1]}, '"input_ids"'),
        ({"text": "a", "inputs": "b"}, '"inputs"'),
        ({"text": "a", "logprob_start_len": 0}, '"logprob_start_len"'),
        ({"text": "a", "sampling_params": 5}, '"sampling_params"'),
        ({"text": "a", "sampling_params": [{"n": 1}, {"n": 2}]}, '"sampling_params"'),
        ({"text": "a", "sampling_params": {"max_new_tokens": -1}}, "sampling_params.max_new_tok"),
        ({"text": "a", "sampling_params": {"sampling_seed": "x"}}, "sampling_params.sampling_seed"),
        ({"text": "a", "sampling_params": {"regex": "("}}, "sampling_params.regex"),
        ({"text": "a", "sampling_params": {"logit_bias": {"1": 2}}}, "sampling_params.logit_bias"),
    ],
)
def test_a_wrong_member_of_sglangs_is_named(
    client: HttpClient, body: dict[str, Any], word: str
) -> None:
    reply = client.ask("POST", "/generate", body)
    assert reply.status == 400
    assert word in reply.json["error"]


def test_sglangs_router_learns_what_the_model_is_and_whether_it_works(client: HttpClient) -> None:
    info = client.get("/model_info").json
    assert (info["model_path"], info["is_generation"]) == ("demo", True)
    assert client.get("/get_model_info").json == info
    assert client.get("/health_generate").status == 200


# What a server says of itself ---------------------------------------------------------------------


def test_the_length_of_a_model_is_where_llama_cpps_clients_look(client: HttpClient) -> None:
    assert client.get("/props").json["default_generation_settings"]["n_ctx"] == 2048
    assert client.get("/props?model=demo&autoload=false").status == 200
    (model,) = client.get("/v1/models").json["data"]
    assert model["meta"]["n_ctx_train"] == 2048
    assert client.get("/slots").json[-1]["is_processing"] is False
    assert client.get("/load").json == {"server_load": 0}
    assert client.get("/props?model=nobody").status == 404


def test_lm_studios_clients_find_the_models(client: HttpClient) -> None:
    (model,) = client.get("/api/v0/models").json["data"]
    assert (model["id"], model["type"], model["state"]) == ("demo", "llm", "loaded")
    assert model["max_context_length"] == 2048
    assert client.get("/api/v0/models/demo").json == model
    assert client.get("/api/v0/models/nobody").error["code"] == "model_not_found"
    messages = [{"role": "user", "content": "Hi"}]
    asked = {"messages": messages, "max_tokens": 3, "temperature": 0}
    chat = client.post("/api/v0/chat/completions", **asked).json
    assert chat["choices"] == client.post("/v1/chat/completions", **asked).json["choices"]
    assert client.post("/api/v0/completions", prompt="Hi", max_tokens=2).status == 200


def test_the_chat_template_is_the_operators(client: HttpClient, shown: HttpClient) -> None:
    assert "chat_template" not in client.get("/props").json
    assert client.get("/tokenizer_info").status == 404
    assert posted(client, "/api/show", model="demo")["template"] == ""
    template = (DEMO / "chat_template.jinja").read_text()
    for path in ("/props", "/tokenizer_info"):
        found = shown.get(path).json
        assert found["chat_template"] == template
        assert found["eos_token"] == "<|im_end|>"
    assert posted(shown, "/api/show", model="demo")["template"] == template
