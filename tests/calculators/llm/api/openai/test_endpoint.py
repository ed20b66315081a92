"""Which paths a language model answers."""

from __future__ import annotations

import pytest

from calculators.llm.requests.endpoint import Endpoint, endpoint_of
from calculators.requests.http_payload import RequestError
from graph_runtime import Code


@pytest.mark.parametrize("prefix", ["/v1", "/v3", "/v3/v1"])
def test_the_paths_of_both_kinds_of_clients(prefix: str) -> None:
    assert endpoint_of(f"{prefix}/chat/completions") is Endpoint.CHAT_COMPLETIONS
    assert endpoint_of(f"{prefix}/completions?api-version=1") is Endpoint.COMPLETIONS
    assert endpoint_of(f"{prefix}/responses") is Endpoint.RESPONSES
    assert endpoint_of(f"{prefix}/messages?beta=true") is Endpoint.MESSAGES
    assert endpoint_of(f"{prefix}/messages/count_tokens") is Endpoint.COUNT_TOKENS
    assert endpoint_of(f"{prefix}/tokenize") is Endpoint.TOKENIZE


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
        "",
    ],
)
def test_others_are_not_found_and_the_right_ones_listed(uri: str) -> None:
    with pytest.raises(
        RequestError, match="/v3/chat/completions, /v3/completions, /v3/responses"
    ) as raised:
        endpoint_of(uri)
    assert raised.value.code is Code.NOT_FOUND


def test_a_long_path_is_not_repeated_whole() -> None:
    with pytest.raises(RequestError) as raised:
        endpoint_of("/v3/" + "x" * 8000)
    assert len(str(raised.value)) < 300
