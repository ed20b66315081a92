"""`HttpAnswering`: the answer to one HTTP request, whole or in pieces."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from calculators.language.generation_request import GenerationRequest
from calculators.llm.answers.answer import Answer
from calculators.llm.answers.delta_writer import DeltaWriter
from calculators.llm.api.answer_writers import answer_writer
from calculators.llm.api.neutral_request import neutral_request
from calculators.llm.endpoints import Counting, Generating, LlmEndpoint, endpoint_of
from calculators.llm.servable import LlmServable
from calculators.requests.http_payload import ClientConnection, HttpPayload, RequestError
from calculators.requests.request_record import GenerationRecord, set_current_record


class HttpAnswering:
    """One run of `HttpLLMCalculator`.

    Attributes:
        answer: None until a request that generates has been submitted.
        client: the request's.
        write: makes the text for the client; see `DeltaWriter.write`.
    """

    __slots__ = ("_node", "_servable", "answer", "client", "write")

    client: ClientConnection

    def __init__(self, node: str, servable: LlmServable) -> None:
        self._node = node
        self._servable = servable
        self.answer: Answer | None = None
        self.write = DeltaWriter(answer_writer).write

    async def begin(self, payload: HttpPayload) -> str | None:
        """Submit a request; return the whole answer, or None for a stream, read from `answer`.

        Raises:
            RequestError: the request is invalid, or the model cannot answer it.
        """
        # Child processes take turns by client, whom they find by the task's record.
        set_current_record(payload.record)
        self.client = payload.client
        endpoint = endpoint_of(payload.uri)
        if payload.parsed_json is None:
            raise RequestError("the body must be JSON, with Content-Type: application/json")
        handling = endpoint.handling()
        if isinstance(handling, Counting):
            servable = self._servable
            request = endpoint.parse(
                payload.parsed_json, servable.limits.request, servable.defaults
            )
            return await handling.answer(servable, request)
        record: GenerationRecord | None = None
        if payload.record is not None:
            record = payload.record.begin_generation(self._node, endpoint.path[1:])
        is_stream, submitting = self._submit(endpoint, handling, payload, record)
        del payload
        self.answer = await submitting
        return None if is_stream else await self._whole(self.answer)

    async def _whole(self, answer: Answer) -> str:
        body = ""
        while not answer.is_finished:
            body = self.write(await answer.read())
        return body

    def _submit(
        self,
        endpoint: LlmEndpoint,
        handling: Generating[Any],
        payload: HttpPayload,
        record: GenerationRecord | None,
    ) -> tuple[bool, Awaitable[Answer]]:
        """Parse a request, then render, tokenize and submit it; the first value: is it a stream?"""
        servable = self._servable
        # In one pass, so that the first of several errors is reported.
        checked = endpoint.parse(payload.parsed_json, servable.limits.request, servable.defaults)
        request: GenerationRequest = neutral_request(
            checked,
            handling.api,
            payload.parsed_json,
            payload.client,
            payload.record,
            has_prompt=False,
        )
        return request.stream, servable.submit(checked, request, record, logs_raw_text=True)
