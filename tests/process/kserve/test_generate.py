"""Triton's generate extension on a real language model, over plain HTTP."""

from __future__ import annotations

import json

from tests.process.kserve.asked import LANGUAGE_MODEL, MAX_TOKENS, PROMPT
from tests.process.server_process import ServerProcess

PATH = f"/v2/models/{LANGUAGE_MODEL}"
ASKED = {
    "id": "seven",
    "text_input": PROMPT,
    "parameters": {"max_tokens": MAX_TOKENS, "temperature": 0, "exclude_input_in_output": True},
}


def test_generate_answers_with_the_text(server: ServerProcess, text: str) -> None:
    reply = server.client.ask("POST", f"{PATH}/generate", ASKED)
    assert reply.status == 200
    told = reply.json
    assert (told["id"], told["model_name"], told["text_output"]) == ("seven", LANGUAGE_MODEL, text)


def test_generate_stream_answers_piece_by_piece(server: ServerProcess, text: str) -> None:
    with server.client.open("POST", f"{PATH}/generate_stream", ASKED) as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/event-stream")
        events = response.read().decode().removesuffix("\n\n").split("\n\n")
    pieces = [json.loads(event.removeprefix("data: "))["text_output"] for event in events]
    assert 2 < len(pieces) <= MAX_TOKENS + 1
    assert "".join(pieces) == text


def test_generate_names_the_missing_input(server: ServerProcess) -> None:
    reply = server.client.ask("POST", f"{PATH}/generate", {"text_inptu": PROMPT})
    assert reply.status == 400
    assert '"text_input" is missing' in reply.json["error"]
