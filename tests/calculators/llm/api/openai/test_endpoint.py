"""Paths that a language model answers."""

from __future__ import annotations

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.endpoints import (
    CHAT_COMPLETIONS,
    COMPLETIONS,
    COUNT_TOKENS,
    MESSAGES,
    RESPONSES,
    TOKENIZE,
    endpoint_of,
)
from graph_runtime import Code


@pytest.mark.parametrize("prefix", ["/v1", "/v3", "/v3/v1"])
def test_the_paths_of_both_kinds_of_clients(prefix: str) -> None:
    assert endpoint_of(f"{prefix}/chat/completions") is CHAT_COMPLETIONS
    assert endpoint_of(f"{prefix}/completions?api-version=1") is COMPLETIONS
    assert endpoint_of(f"{prefix}/responses") is RESPONSES
    assert endpoint_of(f"{prefix}/messages?beta=true") is MESSAGES
    assert endpoint_of(f"{prefix}/messages/count_tokens") is COUNT_TOKENS
    assert endpoint_of(f"{prefix}/tokenize") is TOKENIZE
    assert endpoint_of(f"{prefix}/chat/tokenize?x=1") is TOKENIZE


@pytest.mark.parametrize(
    "uri",
    [
        "/v3/embeddings",
        "/v1/completions/",
        "/v1/responses/resp_1",
        "/v1/messages/batches",
        "/v2/completions",
        "/completions",
        "/v1/v3/completions",
        "/v3/x/chat/completions",
        "/x/tokenize",
        "",
    ],
)
def test_other_paths_are_not_found_and_the_right_ones_are_listed(uri: str) -> None:
    with pytest.raises(
        RequestError, match="/v3/chat/completions, /v3/completions, /v3/responses"
    ) as raised:
        endpoint_of(uri)
    assert raised.value.code is Code.NOT_FOUND


def test_a_long_path_is_shortened_in_the_error() -> None:
    with pytest.raises(RequestError) as raised:
        endpoint_of("/v3/" + "x" * 8000)
    assert len(str(raised.value)) < 1000
