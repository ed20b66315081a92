"""The log of a whole server: what is in it, and what must never be."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from protos.pool import message_class
from tests.calculators.tensors.python.test_http_payloads import GRAPH
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

DEMO = ROOT / "examples" / "models" / "demo"
PROMPT = "ulterior-apricot"
KEY = "sk-solitary-walrus"
HANDLER = """
import logging, os

class OvmsPythonModel:
    def initialize(self, arguments):
        logging.getLogger("of.the.handler").warning("logged")
        print("printed", flush=True)
        os.write(2, b"from os\\n")

    def execute(self, inputs):
        return {}
"""
SECRETS = (PROMPT, "apricot", KEY, "walrus")


@contextmanager
def serving_demo(folder: Path, *words: str, until: str) -> Iterator[Serving]:
    flags = ("--port", "auto", "--log_path", "server.log", *words)
    with Serving(folder, DEMO, *flags, calculators=()) as server:
        line = server.wait_for("listening on http://")
        http_address, grpc_address = line[line.index("http://") :].strip('"}\n').split(", ")
        server.port = int(http_address.rpartition(":")[2])
        server.grpc_address = grpc_address.removeprefix("grpc://")  # type: ignore[attr-defined]
        server.wait_for(until)
        yield server


def post(server: Serving, path: str, body: Any, **headers: str) -> int:
    data = body if isinstance(body, (str, bytes)) else json.dumps(body)
    fields = {"Content-Type": "application/json", **headers}
    with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request("POST", path, data, fields)
        with connection.getresponse() as response:
            response.read()
            return response.status


def chat(**fields: Any) -> dict[str, Any]:
    message = {"role": "user", "content": PROMPT}
    return {"model": "demo", "messages": [message], "max_tokens": 4, **fields}


def bytes_of(text: str) -> Mapping[str, Any]:
    return {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": [text]}


def call(server: Serving, text: str, **fields: Any) -> grpc.StatusCode:
    tensor: dict[str, Any] = {"name": "text_input", "datatype": "BYTES", "shape": [1]}
    tensor["contents"] = {"bytes_contents": [text.encode()]}
    request = message_class("inference.ModelInferRequest")(
        **{"model_name": "demo", "inputs": [tensor], **fields}
    )
    with grpc.insecure_channel(server.grpc_address) as channel:  # type: ignore[attr-defined]
        function = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        metadata = (("authorization", f"Bearer {KEY}"), ("x-api-key", KEY))
        try:
            function(request.SerializeToString(), metadata=metadata, timeout=PATIENCE)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
        return grpc.StatusCode.OK


def busy_session(server: Serving) -> None:
    """Chats, tools, errors, tensors of text; keys in headers and queries."""
    keys = {"Authorization": f"Bearer {KEY}", "X-Api-Key": KEY}
    path = f"/v3/chat/completions?api_key={KEY}"
    assert post(server, path, chat(), **keys) == 200
    assert post(server, path, chat(stream=True, n=2), **keys) == 200
    function = {"name": PROMPT, "description": PROMPT, "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": function}]
    assert post(server, path, chat(tools=tools), **keys) == 200
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": PROMPT}}}
    assert post(server, path, chat(response_format=form, max_tokens=30), **keys) == 200
    assert post(server, "/v3/completions", {"model": "demo", "prompt": PROMPT}, **keys) == 200
    assert post(server, "/v3/tokenize", {"model": "demo", "text": PROMPT}, **keys) == 200
    message = {"model": "demo", "max_tokens": 4, "messages": chat()["messages"]}
    assert post(server, "/v1/messages", message, **keys) == 200
    assert post(server, "/v1/responses", {"model": "demo", "input": PROMPT}, **keys) == 200
    # Errors, which repeat to the client what is wrong.
    pattern = {
        "type": "json_schema",
        "json_schema": {"name": "x", "schema": {"pattern": f"({KEY}"}},
    }
    wrong: list[Any] = [
        chat(temperature=PROMPT),
        chat(messages=[{"role": [PROMPT], "content": PROMPT}]),
        chat(messages=[{"role": "user", "content": {PROMPT: KEY}}]),
        chat(tool_choice={"type": PROMPT}),
        chat(response_format=pattern),
        chat(logit_bias={PROMPT: KEY}),
        f'{{"model": "demo", "{PROMPT}": {KEY}',
    ]
    assert [post(server, path, body, **keys) for body in wrong] == [400] * len(wrong)
    infer = "/v2/models/demo/infer"
    assert post(server, infer, {"inputs": [bytes_of(PROMPT)]}, **keys) == 200
    assert post(server, infer, {"inputs": [bytes_of(PROMPT)] * 2}, **keys) == 400
    unknown = {**bytes_of(PROMPT), "datatype": PROMPT}
    assert post(server, infer, {"inputs": [unknown]}, **keys) == 400
    generate = {"text_input": {PROMPT: KEY}}
    assert post(server, "/v2/models/demo/generate", generate, **keys) == 400
    assert call(server, PROMPT) is grpc.StatusCode.OK
    parameters = {"temperature": {"string_param": PROMPT}}
    assert call(server, PROMPT, parameters=parameters) is grpc.StatusCode.INVALID_ARGUMENT
    tensors = [{"name": PROMPT, "datatype": PROMPT, "shape": [1]}]
    assert call(server, PROMPT, inputs=tensors) is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_prompt_and_no_key_is_in_the_log(tmp_path: Path, form: str) -> None:
    flags = ("--log_level", "TRACE", "--log_format", form)
    with serving_demo(tmp_path, *flags, until="demo: loaded in") as server:
        busy_session(server)
        server.send_signal()
        code, out, rest = server.end()
    assert (code, out) == (0, "")
    for log in ("".join(server.log) + rest, (tmp_path / "server.log").read_text()):
        assert log.count("/v3/chat/completions") >= 9
        assert log.count("GRPCInferenceService/ModelInfer") >= 3
        assert [secret for secret in SECRETS if secret in log.lower()] == []
    if form == "json":
        lines = [json.loads(line) for line in (*server.log, *rest.splitlines())]
        chats = [
            line
            for line in lines
            if line["message"] == "request" and "/chat/" in line.get("path", "")
        ]
        assert {line["prompt_tokens"] > 0 for line in chats if line["status"] == 200} == {True}


def test_prompts_and_answers_are_logged_when_that_is_asked_for(tmp_path: Path) -> None:
    flags = ("--log_format=json", "--log_prompts")
    with serving_demo(tmp_path, *flags, until="demo: loaded in") as server:
        headers = {"X-Request-Id": "mine"}
        assert post(server, "/v3/chat/completions", chat(n=2, temperature=1.0), **headers) == 200
        server.send_signal()
        server.end()
    lines = [json.loads(line) for line in (tmp_path / "server.log").read_text().splitlines()]
    assert (lines[0]["level"], lines[0]["message"][:14]) == ("WARNING", "--log_prompts:")
    told = [line for line in lines if line["logger"] == "graphrt.prompts"]
    assert {line["request_id"] for line in told} == {"mine"}
    assert [line["message"] for line in told] == ["prompt", "answer", "answer"]
    assert PROMPT in told[0]["prompt"]
    assert all(line["answer"] for line in told[1:])


def test_what_a_handler_logs_and_prints_is_in_the_same_log(tmp_path: Path) -> None:
    (tmp_path / "graph.pbtxt").write_text(GRAPH)
    (tmp_path / "model.py").write_text(HANDLER)
    words = (tmp_path, "--log_format=json", "--log_path=server.log", "--port=0")
    with Serving(tmp_path, *words, calculators=()) as server:
        server.wait_for(": from os")
        server.send_signal()
        server.end()
    lines = [json.loads(line) for line in (tmp_path / "server.log").read_text().splitlines()]
    own = {line["message"]: (line["level"], line["logger"]) for line in lines}
    assert own["logged"] == ("WARNING", "of.the.handler")
    output = ("INFO", "graphrt.child.output")
    told = [message for message, place in own.items() if place == output]
    assert [message.rpartition(": ")[2] for message in told] == ["printed", "from os"]
