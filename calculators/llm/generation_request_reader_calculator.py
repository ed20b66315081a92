"""`GenerationRequestReaderCalculator`: the first of the three nodes of a language model."""

from __future__ import annotations

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.requests.request_record import set_current_record
from calculators.kit.tasks.endpoint import PREFIXES
from calculators.language.generation_request import GenerationRequest
from calculators.llm.endpoints import ENDPOINTS, Counting, endpoint_of
from graph_runtime import Calculator, CalculatorContext, Code, In, Out


class GenerationRequestReaderCalculator(Calculator):
    """Reads requests to language models, whichever API they came by.

    Requests that no model takes are refused here; `LLMCalculator` checks the limits of its model.
    Requests to count tokens (``/tokenize``, ``/messages/count_tokens``) go to ``COUNT``; without
    it they are answered with 404.

    ::

        node {
          calculator: "GenerationRequestReaderCalculator"
          input_stream: "HTTP_REQUEST_PAYLOAD:input"
          output_stream: "REQUEST:request"
        }
    """

    payload = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    request = Out[GenerationRequest]("REQUEST")
    count = Out[HttpPayload]("COUNT", optional=True)

    async def process(self, cc: CalculatorContext) -> None:
        # Here, as in `endpoints`: a check of a graph needs the ports alone.
        from calculators.llm.api.neutral_request import (
            OPEN_DEFAULTS,
            OPEN_LIMITS,
            neutral_request,
            without_model_dependent,
        )
        from calculators.llm.pdf_files import with_pdf_texts

        # Taken, so that the body is free once it is read.
        payload = await with_pdf_texts(cc.take(self.payload))
        set_current_record(payload.record)
        endpoint = endpoint_of(payload.uri)
        body = payload.parsed_json
        if body is None:
            raise RequestError("the body must be JSON, with Content-Type: application/json")
        handling = endpoint.handling()
        if isinstance(handling, Counting):
            if not cc.is_connected(self.count):
                raise _not_counted(endpoint.path)
            cc.emit(self.count, payload)
            return
        checked = endpoint.parse(without_model_dependent(body), OPEN_LIMITS, OPEN_DEFAULTS)
        cc.emit(
            self.request,
            neutral_request(checked, handling.api, body, payload.client, payload.record),
        )


def _not_counted(path: str) -> RequestError:
    answered = [
        PREFIXES[0] + each.path for each in ENDPOINTS if not isinstance(each.handling(), Counting)
    ]
    return RequestError(
        f'This graph does not answer "{PREFIXES[0]}{path}"; it answers {", ".join(answered)}, '
        f"and as much under /v1",
        code=Code.NOT_FOUND,
    )
