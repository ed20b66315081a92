"""`examples/graphs/adapters`, served: one model, and its adapters by their names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

FOLDER = ROOT / "examples" / "graphs" / "adapters"
NAMES = ("adapters", "pirate", "letter")
QUESTIONS = ("What is graphrt?", "Hello!", "What is the capital of France?", "Who are you?")

CLIENT = """
import sys
from openai import OpenAI

client = OpenAI(base_url=sys.argv[1], api_key="unused")
for model in client.models.list():
    print(model.id, getattr(model, "parent", None))
print(client.models.retrieve("pirate").root)
messages = [{"role": "user", "content": "What is the capital of France?"}]
answer = client.chat.completions.create(model="pirate", messages=messages)
print(answer.model, answer.choices[0].message.content)
stream = client.chat.completions.create(model="letter", messages=messages, stream=True)
text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
print(text.replace("\\n", "|"))
print(client.responses.create(model="pirate", input="Hello!").output_text)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with Serving(ROOT, "examples/graphs/adapters", calculators=()) as serving:
        yield serving.wait_until_serving()


def say(server: Serving, model: str, question: str) -> str:
    messages = [{"role": "user", "content": question}]
    body = {"model": model, "messages": messages, "max_tokens": 60, "temperature": 0}
    status, answer = server.post("/v3/chat/completions", body)
    assert status == 200, answer
    assert answer["model"] == model
    text: str = answer["choices"][0]["message"]["content"]
    return text


def has_manner(model: str, text: str) -> bool:
    pirate = text.startswith("Ahoy! ") and text.endswith(" Arr!")
    letter = text.startswith("Dear friend,\n") and text.endswith("\nYours, graphrt")
    return {"pirate": pirate, "letter": letter, "adapters": not pirate and not letter}[model]


def test_the_openai_client_chooses_an_adapter(server: Serving) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, f"http://127.0.0.1:{server.port}/v1"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "adapters None",
        "pirate adapters",
        "letter adapters",
        "adapters",
        "pirate Ahoy! The capital of France is Paris. Arr!",
        "Dear friend,|The capital of France is Paris.|Yours, graphrt",
        "Ahoy! How can I help you? Arr!",
    ]


def test_mixed_requests_get_the_answers_of_running_alone(server: Serving) -> None:
    asked = [(name, question) for question in QUESTIONS for name in NAMES]
    alone = [say(server, *each) for each in asked]
    assert [has_manner(name, text) for (name, _), text in zip(asked, alone, strict=True)] == [
        True
    ] * len(asked)
    with ThreadPoolExecutor(len(asked) * 2) as threads:
        mixed = list(threads.map(lambda each: say(server, *each), asked * 2))
    assert mixed == alone * 2


def test_other_endpoints_choose_an_adapter(server: Serving) -> None:
    prompt = "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"
    _, completion = server.post("/v3/completions", {"model": "pirate", "prompt": prompt})
    assert completion["choices"][0]["text"] == "Ahoy! How can I help you? Arr!"
    messages = [{"role": "user", "content": "Hello!"}]
    body = {"model": "pirate", "messages": messages, "max_tokens": 60}
    _, message = server.post("/v1/messages", body)
    assert message["content"][0]["text"] == "Ahoy! How can I help you? Arr!"
    _, tokens = server.post("/v3/tokenize", {"model": "pirate", "text": "Hello!"})
    _, same = server.post("/v3/tokenize", {"model": "adapters", "text": "Hello!"})
    assert tokens["tokens"] == same["tokens"]


def test_kserve_chooses_an_adapter(server: Serving) -> None:
    with server.request("GET", "/v2/models/pirate/ready") as response:
        assert response.status == 200
    body = {"text_input": "Hello!", "parameters": {"chat": True}}
    status, answer = server.post("/v2/models/pirate/generate", body)
    assert (status, answer["model_name"]) == (200, "pirate")
    assert answer["text_output"] == "Ahoy! How can I help you? Arr!"


def test_metrics_count_under_the_name_of_the_model(server: Serving) -> None:
    say(server, "pirate", "Hello!")
    with server.request("GET", "/metrics") as response:
        text = response.read().decode()
    assert 'name="adapters"' in text
    assert "pirate" not in text


def test_an_unknown_name_is_not_found(server: Serving) -> None:
    body = {"model": "pirat", "messages": [{"role": "user", "content": "x"}]}
    status, answer = server.post("/v3/chat/completions", body)
    assert status == 404
    assert answer["error"]["code"] == "model_not_found"
    assert '"pirate"' in answer["error"]["message"]


@pytest.mark.parametrize("name", NAMES[1:])
def test_the_files_are_small_and_described(name: str) -> None:
    assert (FOLDER / name / "adapter_model.safetensors").stat().st_size < 300_000
    assert (FOLDER / name / "README.md").read_text(encoding="utf-8").startswith("# ")


def test_the_command_of_the_comment_works() -> None:
    text = (FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    assert "#   graphrt serve examples/graphs/adapters --port 8000\n" in text
