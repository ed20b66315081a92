"""`EmbeddingsCalculatorOV`: OpenAI's embeddings endpoint over a model that OpenVINO runs."""

from __future__ import annotations

from typing import Any, Final

from calculators.embeddings.request import parse_embeddings_request
from calculators.embeddings.servable import EmbeddingsServable
from calculators.requests.http_payload import HttpPayload, RequestError
from calculators.requests.request_record import set_current_record
from graph_runtime import (
    Calculator,
    CalculatorContext,
    Code,
    GraphError,
    In,
    Out,
    SideIn,
)

_PATH: Final = "/embeddings"


class EmbeddingsCalculatorOV(Calculator):
    """Answers a request to ``/v3/embeddings`` with a vector for each of its texts.

    Texts are tokenized and computed in the model's own process; no thread waits. The tags are
    OpenVINO Model Server's; those with HTTP_ before them are taken too.

    ::

        node {
          name: "EmbeddingsExecutor"
          calculator: "EmbeddingsCalculatorOV"
          input_side_packet: "EMBEDDINGS_NODE_RESOURCES:embeddings_servable"
          input_stream: "REQUEST_PAYLOAD:input"
          output_stream: "RESPONSE_PAYLOAD:output"
          node_options {
            [type.googleapis.com/mediapipe.EmbeddingsCalculatorOVOptions] {
              models_path: "./"
              pooling: MEAN
            }
          }
        }

    Source: OpenVINO Model Server ``embeddings/embeddings_calculator_ov.cc``.
    """

    request = In[HttpPayload]("REQUEST_PAYLOAD", optional=True)
    http_request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD", optional=True)
    response = Out[bytes]("RESPONSE_PAYLOAD", optional=True)
    http_response = Out[bytes]("HTTP_RESPONSE_PAYLOAD", optional=True)
    resources = SideIn[dict[str, Any]]("EMBEDDINGS_NODE_RESOURCES")

    def open(self, cc: CalculatorContext) -> None:
        servable = cc.side(self.resources).get(cc.node_name)
        if servable is None:
            raise GraphError(
                f"Could not find initialized embeddings node named: {cc.node_name}",
                code=Code.FAILED_PRECONDITION,
            )
        self._servable: EmbeddingsServable = servable

    async def process(self, cc: CalculatorContext) -> None:
        for request, response in (
            (self.request, self.response),
            (self.http_request, self.http_response),
        ):
            if cc.is_connected(request) and not cc.is_empty(request):
                cc.emit(response, await self._answer(cc.take(request)))

    async def _answer(self, payload: HttpPayload) -> bytes:
        # Child processes take turns by client; this task may be anybody's.
        set_current_record(payload.record)
        path = payload.uri.partition("?")[0]
        if not path.endswith(_PATH):
            raise RequestError(
                "an embedding model answers /v3/embeddings, and the same under /v1",
                code=Code.NOT_FOUND,
            )
        if payload.parsed_json is None:
            raise RequestError("the body must be JSON, with Content-Type: application/json")
        return await self._servable.answer(parse_embeddings_request(payload.parsed_json))
