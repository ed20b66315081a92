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
from calculators.requests.http_payload import HttpPayload, RequestError
from calculators.requests.request_record import GenerationRecord, set_current_record


class HttpAnswering:
    """One run of `HttpLLMCalculator`."""

    __slots__ = ("_answer", "_client", "_node", "_servable", "_writer")

    def __init__(self, node: str, servable: LlmServable) -> None:
        self._node = node
        self._servable = servable
        self._answer: Answer | None = None
        self._writer = DeltaWriter(answer_writer)
        self._client: Any = None

    @property
    def has_more(self) -> bool:
        """Are events of a stream still to come?"""
        return self._answer is not None and not self._answer.is_finished

    async def begin(self, payload: HttpPayload) -> str | None:
        """Submit a request; return the whole answer, or None for a stream, which has `events`.

        Raises:
            RequestError: the request is invalid, or the model cannot answer it.
        """
        # Child processes take turns by client, whom they find by the task's record.
        set_current_record(payload.record)
        self._client = payload.client
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
        self._answer = await submitting
        return None if is_stream else await self._whole(self._answer)

    async def events(self) -> str:
        """Return the next events of a stream; "" if there are none yet."""
        assert self._answer is not None
        if not self._client.is_writable:
            # Text for a slow reader is made only when the reader has taken the last piece.
            await self._client.writable()
        return self._writer.write(await self._answer.read())

    def cancel(self) -> None:
        """End the answer, unless it has ended."""
        if self._answer is not None:
            self._answer.cancel()

    async def _whole(self, answer: Answer) -> str:
        body = ""
        while not answer.is_finished:
            body = self._writer.write(await answer.read())
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
