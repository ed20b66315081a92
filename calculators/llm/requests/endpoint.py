"""Which endpoint a request is for: one of OpenAI's, of Anthropic's, or OpenVINO Model Server's."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from calculators.requests.http_payload import RequestError
from calculators.tasks.task import PREFIXES
from graph_runtime import Code


class Endpoint(StrEnum):
    """The endpoints that a language model answers; the value is the end of the path."""

    CHAT_COMPLETIONS = "/chat/completions"
    COMPLETIONS = "/completions"
    RESPONSES = "/responses"
    MESSAGES = "/messages"
    COUNT_TOKENS = "/messages/count_tokens"
    TOKENIZE = "/tokenize"


_BY_PATH: Final = {prefix + endpoint: endpoint for prefix in PREFIXES for endpoint in Endpoint}


def endpoint_of(uri: str) -> Endpoint:
    """The endpoint of a path, with or without a query. The match is exact.

    Raises:
        RequestError: NOT_FOUND, with the paths there are.
    """
    path = uri.partition("?")[0]
    endpoint = _BY_PATH.get(path)
    if endpoint is None:
        # A path may be as long as a request line; its end says enough.
        shown = path if len(path) <= 100 else "..." + path[-100:]
        raise RequestError(
            f'A language model does not answer "{shown}"; it answers '
            f"{', '.join(PREFIXES[0] + endpoint for endpoint in Endpoint)}, and as much under /v1",
            code=Code.NOT_FOUND,
        )
    return endpoint
