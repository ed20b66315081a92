"""`examples/graphs/judge`, served: two models answer, and a third one chooses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.examples.served_model import ServedModel
from tests.servers.cli.serving import Serving

MODEL: Final = ServedModel("judge")
#: Both models answer the first question in the same words, and the second one in different ones.
AGREED: Final = "Hello!"
DISPUTED: Final = "What is graphrt?"


@pytest.fixture(scope="module")
def server(child_program: None) -> Iterator[Serving]:
    with MODEL.serving() as serving:
        yield serving.wait_until_serving()


def test_the_commands_of_the_comment_work() -> None:
    MODEL.check_comment(num_nodes=6)


def test_all_clients_get_one_answer_whole_and_streamed(server: Serving) -> None:
    MODEL.check_clients(server, DISPUTED)


def test_usage_counts_both_answers_and_the_verdict(server: Serving) -> None:
    agreed, disputed = (
        MODEL.chat(server, text, temperature=0, max_tokens=40)[1]["usage"]
        for text in (AGREED, DISPUTED)
    )
    # Both models have one tokenizer, and equal answers need no verdict.
    assert agreed["prompt_tokens"] % 2 == agreed["completion_tokens"] % 2 == 0
    assert disputed["prompt_tokens"] > 3 * agreed["prompt_tokens"]


def test_the_log_names_the_answer_that_was_chosen(server: Serving) -> None:
    MODEL.chat(server, DISPUTED, temperature=0, max_tokens=40)
    server.wait_for("route='answer ")
