"""Kept responses of a real server: a restart, several workers, keys, the log and batches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import openai
import pytest

from tests.process.http_client import HttpClient
from tests.process.server_process import DEMO, ServerProcess
from tests.servers.cli.process import graphrt
from tests.support.patience import PATIENCE

KEYS: Final = ("sk-first-key-0123456789", "sk-other-key-0123456789")
SECRET: Final = "fourteen geese over the lake"


Clients = Callable[..., openai.OpenAI]


@pytest.fixture
def clients() -> Iterator[Clients]:
    """Return what makes a client of a server, with a key; all are closed at the end."""
    with ExitStack() as made:

        def client(server: ServerProcess, key: str = "none") -> openai.OpenAI:
            base = f"{server.url}/v1"
            return made.enter_context(openai.OpenAI(base_url=base, api_key=key, max_retries=0))

        yield client


def say(client: openai.OpenAI, text: str, **more: Any) -> Any:
    return client.responses.create(model="demo", input=text, max_output_tokens=8, **more)


def test_a_restart_keeps_what_was_said(tmp_path: Path, clients: Clients) -> None:
    store = tmp_path / "kept"
    with ServerProcess("--response_store", store, DEMO) as server:
        client = clients(server)
        first = say(client, SECRET)
        conversation = client.conversations.create(metadata={"a": "b"})
        say(client, "Hello", conversation=conversation.id)
        server.send_signal()
        assert server.wait() == 0
        assert SECRET not in "".join(server.log)
    with ServerProcess("--response_store", store, DEMO) as server:
        client = clients(server)
        second = say(client, "And?", previous_response_id=first.id)
        assert second.usage.input_tokens > first.usage.input_tokens
        assert client.responses.retrieve(first.id) == first
        assert len(list(client.conversations.items.list(conversation.id))) == 2
        counted = client.responses.input_tokens.count(
            model="demo", input="And?", previous_response_id=first.id
        )
        assert counted.input_tokens == second.usage.input_tokens


def test_workers_share_what_they_keep(clients: Clients) -> None:
    with ServerProcess("--workers", "2", DEMO) as server:
        client = clients(server)
        first = say(client, "Hello")
        begun = client.responses.create(
            model="demo", input="Hello", background=True, max_output_tokens=20
        )
        # Each request has a connection of its own, which the kernel gives to any worker.
        for _ in range(16):
            reply = HttpClient(server.port).get(f"/v1/responses/{first.id}")
            assert (reply.status, reply.json["id"]) == (200, first.id)
        until = time.monotonic() + PATIENCE
        while (shown := _read(server, begun.id))["status"] in ("queued", "in_progress"):
            assert time.monotonic() < until
        assert shown["status"] == "completed"
        for _ in range(4):
            path = f"/v1/responses/{begun.id}?stream=true&starting_after=0"
            text = HttpClient(server.port).get(path).body.decode()
            assert text.startswith("event: response.in_progress")
            assert text.endswith("data: [DONE]\n\n")


def _read(server: ServerProcess, name: str) -> dict[str, Any]:
    found: dict[str, Any] = HttpClient(server.port).get(f"/v1/responses/{name}").json
    return found


def test_keys_keep_apart_and_batches_keep_nothing(tmp_path: Path, clients: Clients) -> None:
    (tmp_path / "keys").write_text("\n".join(KEYS))
    (tmp_path / "keys").chmod(0o600)
    words = ("--batch_dir", "store", "--batch_priority", "normal", "--api_key_file", "keys")
    with ServerProcess(*words, DEMO, cwd=tmp_path) as server:
        mine, other = (clients(server, key) for key in KEYS)
        first = say(mine, SECRET)
        with pytest.raises(openai.NotFoundError):
            other.responses.retrieve(first.id)
        with pytest.raises(openai.NotFoundError):
            other.responses.delete(first.id)
        with pytest.raises(openai.BadRequestError, match="another client"):
            say(other, "And?", previous_response_id=first.id)
        asked = {"model": "demo", "input": "And?", "previous_response_id": first.id}
        line = {"custom_id": "1", "method": "POST", "url": "/v1/responses", "body": asked}
        file = mine.files.create(file=("in.jsonl", json.dumps(line).encode()), purpose="batch")
        batch = mine.batches.create(
            input_file_id=file.id, endpoint="/v1/responses", completion_window="24h"
        )
        until = time.monotonic() + PATIENCE
        while batch.status not in ("completed", "failed"):
            assert time.monotonic() < until
            time.sleep(0.2)
            batch = mine.batches.retrieve(batch.id)
        assert batch.error_file_id is not None
        text = mine.files.content(batch.error_file_id).text
        assert "no responses are kept" in text


def test_a_directory_that_cannot_be_used_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "responses.sqlite").write_bytes(b"no database" * 1000)
    done = graphrt("serve", DEMO, "--rest_port", "auto", "--response_store", tmp_path)
    assert done.returncode == 1
    assert "--response_store: the store of responses cannot be read or written" in done.stderr


def test_a_compacted_conversation_goes_on_with_a_summary(clients: Clients) -> None:
    with ServerProcess(DEMO) as server:
        client = clients(server)
        first = say(client, "Hello")
        made = client.responses.compact(
            model="demo", input="How are you?", previous_response_id=first.id
        )
        kinds = [item.type for item in made.output]
        assert kinds == ["message", "message", "compaction"]
        items: Any = [item.model_dump(exclude_unset=True, warnings=False) for item in made.output]
        assert say(client, "x", instructions="Be brief.").output_text
        answered = client.responses.create(
            model="demo", input=[*items, {"role": "user", "content": "x"}], max_output_tokens=8
        )
        assert answered.status in ("completed", "incomplete")
