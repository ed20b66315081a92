"""`PayloadCalculator`: a calculator that answers HTTP requests under either pair of tags."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from calculators.kit.requests.http_payload import HttpPayload
from calculators.kit.requests.request_record import set_current_record
from graph_runtime import Calculator, CalculatorContext, In, Out


class PayloadCalculator(Calculator):
    """Answers each payload on the stream whose tag belongs to its own.

    OpenVINO Model Server's nodes have tags with or without ``HTTP_``; all take both here.
    """

    request = In[HttpPayload]("REQUEST_PAYLOAD", optional=True)
    http_request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD", optional=True)
    response = Out[Any]("RESPONSE_PAYLOAD", optional=True)
    http_response = Out[Any]("HTTP_RESPONSE_PAYLOAD", optional=True)

    async def process(self, cc: CalculatorContext) -> None:
        for request, response in (
            (self.request, self.response),
            (self.http_request, self.http_response),
        ):
            if cc.is_connected(request) and not cc.is_empty(request):
                # No name for the payload here: a body may be large, and `answer` may let go of it.
                await self.answer(cc, _current(cc.take(request)), response)

    @abstractmethod
    async def answer(self, cc: CalculatorContext, payload: HttpPayload, response: Out[Any]) -> None:
        """Emit the answer of ``payload`` on ``response``.

        Raises:
            RequestError: the request cannot be answered.
        """


def _current(payload: HttpPayload) -> HttpPayload:
    """Make the payload's record the task's current one.

    Child processes take turns by client, and the task may have another client's record.
    """
    set_current_record(payload.record)
    return payload
