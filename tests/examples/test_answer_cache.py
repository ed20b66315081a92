"""`examples/graphs/answer_cache`, served: the same question gets the same answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.examples.served_model import ServedModel
from tests.servers.cli.serving import Serving

MODEL: Final = ServedModel("answer_cache")


@pytest.fixture(scope="module")
def server(child_program: None) -> Iterator[Serving]:
    with MODEL.serving() as serving:
        yield serving.wait_until_serving()


def test_the_commands_of_the_comment_work() -> None:
    MODEL.check_comment(num_nodes=4)


def test_the_second_answer_is_the_first_with_another_id(server: Serving) -> None:
    (_, first), (status, second) = (
        MODEL.chat(server, "Who are you?", temperature=0, max_tokens=30) for _ in range(2)
    )
    assert status == 200, second
    server.wait_for("route='cache'")
    assert first.pop("id") != second.pop("id")
    assert first.pop("created") <= second.pop("created")
    assert first == second


def test_a_stream_and_a_whole_answer_share_an_entry(server: Serving) -> None:
    _, answer = MODEL.chat(server, "Hello!", temperature=0, max_tokens=30)
    whole = answer["choices"][0]["message"]["content"]
    events = MODEL.events(server, "Hello!", temperature=0, max_tokens=30)
    deltas = [event["choices"][0]["delta"] for event in events]
    texts = [delta["content"] for delta in deltas if delta.get("content")]
    assert texts == [whole]  # in one piece


def test_all_clients_get_one_answer_whole_and_streamed(server: Serving) -> None:
    MODEL.check_clients(server, "What is the capital of France?")
