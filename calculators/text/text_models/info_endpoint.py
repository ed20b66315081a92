"""``/info`` of text-embeddings-inference on graphs of encoder models: answer and description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from calculators.kit.requests import schema
from calculators.kit.requests.http_payload import HttpPayload
from calculators.kit.tasks.endpoint import ErrorForm
from calculators.kit.tasks.operation import JSON, Operation, answer, media, paths_of
from calculators.text.text_models.encoder_task import INFO, MAX_TEXTS
from graphrt_base.version import version

INFO_SCHEMAS: Final[dict[str, schema.Schema]] = {
    "TextModelInfo": schema.record(
        {
            "model_id": schema.string(),
            "model_sha": schema.nullable(schema.string()),
            "model_dtype": schema.string(),
            "model_type": schema.anything(
                "One member, whose name says what the model is for: `embedding`, with `pooling`; "
                "`reranker`; or `classifier`, with `id2label` and `label2id`."
            ),
            "max_input_length": schema.integer("The most tokens of a text.", minimum=1),
            "max_client_batch_size": schema.integer("The most texts of a request.", minimum=1),
            "version": schema.string("Of graphrt."),
        },
        required=("model_id", "model_type", "max_input_length", "max_client_batch_size", "version"),
    )
}
#: Read when the module is imported, in a thread: it is in files.
_VERSION: Final = version()


def answer_info(
    payload: HttpPayload, max_tokens: int, kind: str, about: Mapping[str, Any]
) -> bytes:
    """Return the answer to a request for the limits of a model.

    Args:
        max_tokens: the most tokens of a text.
        kind: text-embeddings-inference's word for what the model is for.
        about: the members that models of this kind have.
    """
    return orjson.dumps(
        {
            "model_id": "" if payload.record is None else payload.record.model,
            "model_sha": None,
            "model_dtype": "unknown",
            "model_type": {kind: about},
            "max_input_length": max_tokens,
            "max_client_batch_size": MAX_TEXTS,
            "version": _VERSION,
        }
    )


def about_labels(labels: Sequence[str]) -> dict[str, Any]:
    """Return the members about the classes of a model."""
    numbers = list(map(str, range(len(labels))))
    return {
        "id2label": dict(zip(numbers, labels, strict=True)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def describe_info() -> Operation:
    """Return the operation; its schemas are `INFO_SCHEMAS`."""
    return Operation(
        method="get",
        paths=paths_of(INFO),
        id="textModelInfo",
        tag="text-embeddings-inference",
        summary="The limits of a model",
        form=ErrorForm.OPENAI,
        runs_graph=True,
        parameters=("Model", "Timeout"),
        answers={200: answer("What the server knows.", {JSON: media(schema.ref("TextModelInfo"))})},
    )
