"""Batches of messages by Anthropic's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.process.server_process import ServerProcess
from tests.servers.fronts.openapi.described import Described
from tests.support.conditions import wait_until
from tests.support.late_import import LateImport

if TYPE_CHECKING:
    import anthropic
else:
    anthropic = LateImport("anthropic", reason="the extra `clients` is not installed")

KEYS = ("sk-first-key-0123456789", "sk-other-key-0123456789")
#: Answers with the last word of the conversation; waits while a file is missing.
CALCULATORS = """\
import asyncio
import os

from calculators.language import GenerationRequest, answers


@answers
async def words(request: GenerationRequest):
    text = request.messages[-1]["content"]
    while text == "wait" and not os.path.exists("go"):
        await asyncio.sleep(0.01)
    yield text.upper()
"""
GRAPH = """\
input_stream: "HTTP_REQUEST_PAYLOAD:in"
output_stream: "HTTP_RESPONSE_PAYLOAD:out"
node {
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:in"
  output_stream: "REQUEST:request"
}
node { calculator: "words" input_stream: "REQUEST:request" output_stream: "DELTAS:deltas" }
node {
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:deltas"
  output_stream: "HTTP_RESPONSE_PAYLOAD:out"
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("batches")
    (made / "calcs.py").write_text(CALCULATORS)
    (made / "words").mkdir()
    (made / "words" / "graph.pbtxt").write_text(GRAPH)
    (made / "keys").write_text("\n".join(KEYS))
    (made / "keys").chmod(0o600)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    with ServerProcess(
        *("--calculators", "calcs.py", "words", "--batch_priority", "normal"),
        *("--batch_dir", "store", "--api_key_file", "keys", "--batch_max_requests", "50"),
        cwd=folder,
    ) as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.url, api_key=KEYS[0], max_retries=0)


def asked(name: str, text: Any, **members: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    params = {"model": "words", "max_tokens": 9, "messages": messages, **members}
    return {"custom_id": name, "params": params}


def ended(client: anthropic.Anthropic, batch_id: str) -> Any:
    def has_ended() -> bool:
        status: str = client.messages.batches.retrieve(batch_id).processing_status
        return status == "ended"

    wait_until(has_ended, "the batch did not end")
    return client.messages.batches.retrieve(batch_id)


def test_a_batch_from_its_creation_to_its_deletion(
    client: anthropic.Anthropic, server: ServerProcess
) -> None:
    batches = client.messages.batches
    made = batches.create(
        requests=[asked("a", "hello"), asked("b", 5), asked("c", "x", model="nobody")]
    )
    assert made.id.startswith("msgbatch_")
    assert (made.processing_status, made.request_counts.processing) == ("in_progress", 3)
    with pytest.raises(anthropic.ConflictError):
        batches.delete(made.id)
    done = ended(client, made.id)
    counts = done.request_counts
    assert (counts.succeeded, counts.errored, counts.processing) == (1, 2, 0)
    assert done.ended_at >= done.created_at
    results = {each.custom_id: each.result for each in batches.results(made.id)}
    assert results["a"].message.content[0].text == "HELLO"
    assert results["a"].message.usage is not None
    assert results["b"].error.error.type == "invalid_request_error"
    assert results["c"].error.error.type == "not_found_error"
    key = {"x-api-key": KEYS[0]}
    answer = server.client.ask("GET", f"/v1/messages/batches/{made.id}", headers=key)
    described = Described(server.client.ask("GET", "/openapi.json", headers=key).body)
    described.check_answer(
        "/v1/messages/batches/{batch_id}", "get", 200, "application/json", answer.body
    )
    assert batches.delete(made.id).type == "message_batch_deleted"
    with pytest.raises(anthropic.NotFoundError) as raised:
        batches.retrieve(made.id)
    assert raised.value.body["error"]["type"] == "not_found_error"


def test_a_batch_is_cancelled(client: anthropic.Anthropic) -> None:
    batches = client.messages.batches
    made = batches.create(requests=[asked(str(n), "wait" if n else "soon") for n in range(3)])
    with pytest.raises(anthropic.APIStatusError) as raised:
        list(client.get(f"/v1/messages/batches/{made.id}/results", cast_to=bytes))
    assert raised.value.status_code == 409
    cancelled = batches.cancel(made.id)
    assert cancelled.processing_status in ("canceling", "ended")
    done = ended(client, made.id)
    assert done.cancel_initiated_at is not None
    counts = done.request_counts
    assert counts.succeeded + counts.canceled == 3
    assert counts.canceled >= 2
    results = {each.custom_id: each.result.type for each in batches.results(made.id)}
    assert set(results) == {"0", "1", "2"}
    assert set(results.values()) <= {"succeeded", "canceled"}


def test_batches_are_listed_in_pages_and_belong_to_their_client(
    client: anthropic.Anthropic, server: ServerProcess
) -> None:
    batches = client.messages.batches
    made = [batches.create(requests=[asked("a", "x")]).id for _ in range(3)]
    listed = [each.id for each in batches.list(limit=2)]
    assert listed[:3] == made[::-1]
    page = batches.list(limit=2, before_id=made[0])
    assert [each.id for each in page.data] == [made[2], made[1]]
    other = anthropic.Anthropic(base_url=server.url, api_key=KEYS[1], max_retries=0)
    assert other.messages.batches.list().data == []
    for act in (other.messages.batches.retrieve, other.messages.batches.delete):
        with pytest.raises(anthropic.NotFoundError):
            act(made[0])


@pytest.mark.parametrize(
    ("requests", "place"),
    [
        (None, "requests"),
        ([], "requests"),
        ([{"params": {}}], "requests[0].custom_id"),
        ([{"custom_id": "a"}], "requests[0].params"),
        ([asked("a", "x"), asked("a", "y")], "requests[1].custom_id"),
        ([asked("a", "x", stream=True)], "requests[0].params.stream"),
        ([asked(str(n), "x") for n in range(51)], "requests"),
    ],
)
def test_a_wrong_batch_is_refused_with_the_place(
    server: ServerProcess, requests: Any, place: str
) -> None:
    reply = server.client.ask(
        "POST", "/v1/messages/batches", {"requests": requests}, headers={"x-api-key": KEYS[0]}
    )
    assert reply.status == 400
    body = json.loads(reply.body)
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert f'"{place}"' in body["error"]["message"]


def test_without_a_store_there_are_no_batches(server: ServerProcess) -> None:
    reply = server.client.ask("GET", "/v1/messages/batches/", headers={"x-api-key": KEYS[0]})
    assert reply.status == 404
    assert reply.json["type"] == "error"
