"""The nodes that embed texts.

`EmbeddingsCalculatorOV` answers requests, `TextEmbeddingCalculator` takes packets of texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.tasks.nodes import PayloadCalculator, node_resource
from calculators.text.embeddings.endpoints import (
    COHERE_PATH,
    EMBED,
    EMBEDDINGS,
    OLLAMA_EMBED,
    OLLAMA_EMBEDDINGS,
)
from calculators.text.embeddings.google import (
    google_answer,
    parse_batch_embed_contents,
    parse_embed_content,
)
from calculators.text.embeddings.request import (
    EmbeddingsRequest,
    parse_cohere_request,
    parse_embeddings_request,
    parse_ollama_embed_request,
    parse_ollama_embeddings_request,
    parse_tei_request,
)
from calculators.text.embeddings.servable import (
    Answered,
    EmbeddingsServable,
    cohere_answer,
    ollama_answer,
    ollama_vector,
    openai_answer,
    tei_answer,
)
from calculators.text.text_models.encoder_task import INFO
from calculators.text.text_models.info_endpoint import answer_info
from calculators.text.text_models.text_model import off_loop
from calculators.text.text_models.tokenize_endpoint import answer_detokenize, answer_tokenize
from graph_runtime import Calculator, CalculatorContext, Code, In, Out, SideIn


class TextEmbeddingCalculator(Calculator):
    """Turns each text, or each list of texts, into a matrix with a row for each text.

    Options and model are as for `EmbeddingsCalculatorOV`; further packets are computed while
    earlier ones wait for their batch. Over KServe a graph with this node takes BYTES, one element
    or several, and answers with FP32 of the shape [texts, size].

    ::

        node {
          name: "embed"
          calculator: "TextEmbeddingCalculator"
          input_side_packet: "EMBEDDINGS_NODE_RESOURCES:embeddings"
          input_stream: "TEXT:text"
          output_stream: "EMBEDDINGS:embeddings"
          node_options {
            [type.googleapis.com/mediapipe.EmbeddingsCalculatorOVOptions] {
              models_path: "./"
              pooling: MEAN
            }
          }
        }
    """

    text = In[str | list[str]]("TEXT")
    embeddings = Out[np.ndarray[tuple[int, int], np.dtype[np.float32]]]("EMBEDDINGS")
    resources = SideIn[dict[str, Any]]("EMBEDDINGS_NODE_RESOURCES")

    def open(self, cc: CalculatorContext) -> None:
        self._servable: EmbeddingsServable = node_resource(cc, self.resources, "embeddings")

    async def process(self, cc: CalculatorContext) -> None:
        value = cc.get(self.text)
        texts = [value] if isinstance(value, str) else value
        vectors: NDArray[np.float32] = (await self._servable.embed(texts)).vectors
        cc.emit(self.embeddings, vectors)


class _Form(NamedTuple):
    """An API: the reader of its requests, and the writer of its answers."""

    parse: Callable[[object], EmbeddingsRequest]
    write: Callable[[Answered], bytes]


_OPENAI: Final = _Form(parse_embeddings_request, openai_answer)
_COHERE: Final = _Form(parse_cohere_request, cohere_answer)
_TEI: Final = _Form(parse_tei_request, tei_answer)
_GOOGLE: Final = {
    "embedContent": _Form(parse_embed_content, google_answer),
    "batchEmbedContents": _Form(parse_batch_embed_contents, google_answer),
}
_OF_OLLAMA: Final = {
    OLLAMA_EMBED.path: _Form(parse_ollama_embed_request, ollama_answer),
    OLLAMA_EMBEDDINGS.path: _Form(parse_ollama_embeddings_request, ollama_vector),
}


class EmbeddingsCalculatorOV(PayloadCalculator):
    """Answers a request to ``/v3/embeddings`` with a vector for each of its texts.

    ``/embed`` takes the forms of text-embeddings-inference and of Cohere, ``:embedContent`` and
    ``:batchEmbedContents`` Google's, ``/api/embed`` and ``/api/embeddings`` Ollama's; paths that
    end in ``tokenize`` and ``detokenize`` are answered by the model's tokenizer. All of it happens
    in the model's own process; no thread waits. The tags are OpenVINO Model Server's; those with
    HTTP_ before them are taken too.

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

    resources = SideIn[dict[str, Any]]("EMBEDDINGS_NODE_RESOURCES")

    def open(self, cc: CalculatorContext) -> None:
        self._servable: EmbeddingsServable = node_resource(cc, self.resources, "embeddings")

    async def answer(self, cc: CalculatorContext, payload: HttpPayload, response: Out[Any]) -> None:
        cc.emit(response, await self._answer(payload))

    async def _answer(self, payload: HttpPayload) -> bytes:
        path = payload.uri.partition("?")[0]
        if path == INFO.path:
            kind = {"pooling": self._servable.pooling.lower()}
            return answer_info(payload, self._servable.max_tokens, "embedding", kind)
        if path.endswith("detokenize"):
            return await answer_detokenize(self._servable.model, payload)
        if path.endswith("tokenize"):
            return await answer_tokenize(self._servable.model, payload)
        value = payload.parsed_json
        if path in _OF_OLLAMA:
            form = _OF_OLLAMA[path]
        elif path.endswith(EMBEDDINGS.path):
            form = _OPENAI
        elif (googles := _GOOGLE.get(path.rpartition(":")[2])) is not None:
            form = googles
        elif path.endswith(EMBED.path):
            has_texts = isinstance(value, dict) and value.get("texts") is not None
            inputs = value.get("inputs") if isinstance(value, dict) else None
            # Texts are text-embeddings-inference's, objects are Cohere's.
            is_objects = isinstance(inputs, list) and bool(inputs) and isinstance(inputs[0], dict)
            is_path = path.endswith(COHERE_PATH) and inputs is None
            is_cohere = has_texts or is_objects or is_path
            form = _COHERE if is_cohere else _TEI
        else:
            raise RequestError(
                "an embedding model answers /v3/embeddings, and the same under /v1",
                code=Code.NOT_FOUND,
            )
        if value is None:
            # The text of OpenVINO Model Server.
            raise RequestError(
                "Non-json request received in embeddings calculator: the body must be JSON, with "
                "Content-Type: application/json"
            )
        request = await off_loop(len(payload.body), form.parse, value)
        return await self._servable.answer(request, form.write)
