"""The object of a response, as JSON: the body of an answer, and part of some events."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from calculators.kit.requests.http_payload import RequestError
from calculators.language.finish_reason import FinishReason
from calculators.language.usage import Usage
from calculators.llm.answers.json_text import quote
from calculators.llm.answers.response import Verbose
from calculators.llm.api.openai.responses_items import new_id
from graph_runtime import Code

ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed"]

_INCOMPLETE: Final = {
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
}
#: OpenAI knows few codes, and clients know no other; the rest are faults of the server.
_ERROR_CODES: Final = {
    Code.INVALID_ARGUMENT: "invalid_prompt",
    Code.OUT_OF_RANGE: "invalid_prompt",
    Code.RESOURCE_EXHAUSTED: "rate_limit_exceeded",
}


class ResponsesObject:
    """The object of one response; its constant members are written once."""

    __slots__ = ("_head", "_rest", "verbose")

    def __init__(
        self,
        model: str,
        echo: Mapping[str, Any],
        *,
        response_id: str = "",
        created: int | None = None,
    ) -> None:
        """Make the object of a response.

        Args:
            echo: the members of the request that the answer repeats.
            response_id: a new one if it is "".
            created: seconds since 1970; None is now.
        """
        created = int(time.time()) if created is None else created
        self._head = (
            f'"id":"{response_id or new_id("resp")}","object":"response","created_at":{created}'
            f',"model":{quote(model)}'
        )
        #: The members that repeat the request's, each with a comma before it.
        self._rest = "".join(
            f",{quote(name)}:{json.dumps(value, separators=(',', ':'))}"
            for name, value in echo.items()
        )
        #: See `AnswerWriter`.
        self.verbose: Verbose | None = None

    def started(self) -> str:
        """Return the object before anything is generated."""
        return self._json("in_progress", ())

    def ended(self, items: Sequence[str], reason: FinishReason, usage: Usage) -> str:
        """Return the object at the end of the answer; ``items`` as JSON."""
        why = _INCOMPLETE.get(reason)
        status: ResponseStatus = "completed" if why is None else "incomplete"
        return self._json(status, items, why=why, usage=usage)

    def failed(self, items: Sequence[str], error: RequestError) -> str:
        """Return the object after an error; ``items`` as JSON."""
        code = _ERROR_CODES.get(error.code, "server_error")
        text = f'{{"code":"{code}","message":{quote(error.message)}}}'
        return self._json("failed", items, error=text)

    def _json(
        self,
        status: ResponseStatus,
        items: Sequence[str],
        *,
        why: str | None = None,
        error: str = "null",
        usage: Usage | None = None,
    ) -> str:
        completed = int(time.time()) if status == "completed" else "null"
        details = "null" if why is None else f'{{"reason":"{why}"}}'
        verbose = self.verbose.json if self.verbose is not None and usage is not None else ""
        return (
            f'{{{self._head},"status":"{status}","completed_at":{completed},"error":{error}'
            f',"incomplete_details":{details}{self._rest},"output":[{",".join(items)}]'
            f',"usage":{_usage(usage)}{verbose}}}'
        )


def _usage(usage: Usage | None) -> str:
    if usage is None:
        return "null"
    return (
        f'{{"input_tokens":{usage.prompt_tokens}'
        f',"input_tokens_details":{{"cached_tokens":{usage.cached_tokens or 0}'
        f',"cache_write_tokens":0}},"output_tokens":{usage.completion_tokens}'
        f',"output_tokens_details":{{"reasoning_tokens":{usage.reasoning_tokens or 0}}}'
        f',"total_tokens":{usage.prompt_tokens + usage.completion_tokens}}}'
    )
