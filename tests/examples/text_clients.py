"""Unmodified clients: ``python -m tests.examples.text_clients ADDRESS MODEL TEXT ...``.

Prints a JSON object for each pair of a model and a text: for each way to ask the texts that a user
sees, and how the answer ended.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tests.support.patience import PATIENCE

_TOKENS = 40


def ask_with_clients(address: str, model: str, text: str) -> dict[str, Any]:
    """Run all clients in a process of their own; the facts by way, such as ``chat`` and
    ``chat stream``."""
    (facts,) = ask_several(address, (model, text))
    return facts


def ask_several(address: str, *questions: tuple[str, str]) -> list[dict[str, Any]]:
    """Do as `ask_with_clients` with pairs of a model and a text, in one process."""
    words = [word for question in questions for word in question]
    done = subprocess.run(
        [sys.executable, "-m", "tests.examples.text_clients", address, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def main(address: str, *words: str) -> None:
    for model, text in zip(words[::2], words[1::2], strict=True):
        facts: dict[str, Any] = {}
        for ask in (_openai, _anthropic, _kserve):
            facts.update(ask(address, model, text))
        print(json.dumps(facts))


def _openai(address: str, model: str, text: str) -> Iterator[tuple[str, Any]]:
    import openai

    client = openai.OpenAI(base_url=f"{address}/v3", api_key="unused", max_retries=0)
    asked: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": _TOKENS,
    }
    choice = client.chat.completions.create(**asked).choices[0]
    message = choice.message
    yield "chat", [message.content, message.refusal, choice.finish_reason]
    # Not by client.chat.completions.stream, which raises an error for content_filter.
    choices = [chunk.choices[0] for chunk in client.chat.completions.create(**asked, stream=True)]
    refusals = [choice.delta.refusal for choice in choices if choice.delta.refusal]
    yield (
        "chat stream",
        [
            "".join([choice.delta.content or "" for choice in choices]),
            "".join(refusals) or None,
            choices[-1].finish_reason,
        ],
    )

    made: dict[str, Any] = {"model": model, "input": text, "temperature": 0}
    response = client.responses.create(**made, max_output_tokens=_TOKENS)
    yield "responses", _response(response)
    # Not by client.responses.stream, which knows no end but response.completed.
    events: list[Any] = list(
        client.responses.create(**made, max_output_tokens=_TOKENS, stream=True)
    )
    yield "responses stream", _response(events[-1].response)
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    yield "responses pieces", "".join(pieces)

    prompt: dict[str, Any] = {
        "model": model,
        "prompt": text,
        "temperature": 0,
        "max_tokens": _TOKENS,
    }
    completion = client.completions.create(**prompt).choices[0]
    yield "completions", [completion.text, completion.finish_reason]
    chunks = [chunk.choices[0] for chunk in client.completions.create(**prompt, stream=True)]
    yield (
        "completions stream",
        ["".join([chunk.text for chunk in chunks]), chunks[-1].finish_reason],
    )


def _response(response: Any) -> list[Any]:
    refusals = [
        part.refusal
        for item in response.output
        if item.type == "message"
        for part in item.content
        if part.type == "refusal"
    ]
    details = response.incomplete_details
    return [response.output_text, refusals, response.status, details and details.reason]


def _anthropic(address: str, model: str, text: str) -> Iterator[tuple[str, Any]]:
    import anthropic

    client = anthropic.Anthropic(base_url=f"{address}/v3", api_key="unused", max_retries=0)
    asked: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": _TOKENS,
        "extra_body": {"temperature": 0},
    }
    yield "messages", _message(client.messages.create(**asked))
    with client.messages.stream(**asked) as stream:
        pieces = "".join(stream.text_stream)
        message = stream.get_final_message()
    yield "messages stream", _message(message)
    yield "messages pieces", pieces


def _message(message: Any) -> list[Any]:
    text = "".join([block.text for block in message.content if block.type == "text"])
    details = getattr(message, "stop_details", None)
    return [text, message.stop_reason, details and details.explanation]


def _kserve(address: str, model: str, text: str) -> Iterator[tuple[str, Any]]:
    import http.client

    import numpy as np
    import tritonclient.http as triton

    place = address.removeprefix("http://")
    parameters = {"temperature": 0, "max_tokens": _TOKENS, "exclude_input_in_output": True}
    client = triton.InferenceServerClient(place)
    tensor = triton.InferInput("text_input", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([text], dtype=np.object_))
    result = client.infer(model, [tensor], parameters=parameters)
    yield "kserve", result.as_numpy("text_output").item().decode()
    client.close()
    # tritonclient has no method for Triton's own generate extension.
    connection = http.client.HTTPConnection(place)
    body = json.dumps({"text_input": text, "parameters": parameters})
    connection.request("POST", f"/v2/models/{model}/generate_stream", body)
    events = connection.getresponse().read().decode().removesuffix("\n\n").split("\n\n")
    connection.close()
    pieces = [json.loads(event.removeprefix("data: "))["text_output"] for event in events]
    yield "kserve stream", "".join(pieces)


if __name__ == "__main__":
    main(*sys.argv[1:])
