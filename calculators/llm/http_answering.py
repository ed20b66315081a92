"""`HttpAnswering`: the answer to one HTTP request, whole or in pieces."""

from __future__ import annotations

from collections.abc import Awaitable

from msgspec import Struct

from calculators.kit.requests.http_payload import ClientConnection, HttpPayload, RequestError
from calculators.kit.requests.request_record import GenerationRecord, set_current_record
from calculators.llm.answers.answer import Answer
from calculators.llm.answers.answer_writer import DeltaWriter
from calculators.llm.api.neutral_request import neutral_request
from calculators.llm.endpoints import Counting, endpoint_of
from calculators.llm.servable import LlmServable


class HttpAnswering(Struct, eq=False):
    """One run of `HttpLLMCalculator`.

    Attributes:
        node: the node's name.
        writer: makes the text for the client.
        answer: None until a request that generates has been submitted.
        client: the request's; None until there is one.
    """

    node: str
    servable: LlmServable
    writer: DeltaWriter
    answer: Answer | None = None
    client: ClientConnection | None = None

    def begin(self, payload: HttpPayload) -> Awaitable[Answer | str]:
        """Parse and submit a request; return the answer of a stream, or the whole answer's text.

        Raises:
            RequestError: the request is invalid, or the model cannot answer it.
        """
        # Child processes take turns by client, whom they find by the task's record.
        set_current_record(payload.record)
        self.client = payload.client
        servable = self.servable
        endpoint = endpoint_of(payload.uri)
        body = payload.parsed_json
        if body is None:
            raise RequestError("the body must be JSON, with Content-Type: application/json")
        handling = endpoint.handling()
        if isinstance(handling, Counting):
            counted = endpoint.parse(body, servable.limits.request, servable.defaults)
            return handling.answer(servable, counted)
        record: GenerationRecord | None = None
        if payload.record is not None:
            record = payload.record.begin_generation(self.node, endpoint.path[1:])
        # In one pass, so that the first of several errors is reported.
        checked = endpoint.parse(body, servable.limits.request, servable.defaults)
        request = neutral_request(
            checked, handling.api, body, payload.client, payload.record, has_prompt=False
        )
        submitting = servable.submit(checked, request, record, logs_raw_text=True)
        return submitting if request.stream else self._whole(submitting)

    async def _whole(self, submitting: Awaitable[Answer]) -> str:
        self.answer = answer = await submitting
        body = ""
        while not answer.is_finished:
            body = self.writer.write(await answer.read())
        return body
