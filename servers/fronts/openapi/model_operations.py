"""The list of models in OpenAI's form."""

from __future__ import annotations

from typing import Final

from calculators.requests.schema import ref
from calculators.tasks import ErrorForm
from calculators.tasks.operation import JSON, Operation, answer, media, prefixed

_TAG: Final = "OpenAI"


def model_operations() -> list[Operation]:
    """All models, and one of them."""
    return [
        Operation(
            method="get",
            paths=prefixed("/models"),
            id="listModels",
            tag=_TAG,
            summary="What is served",
            form=ErrorForm.OPENAI,
            answers={200: answer("The models.", {JSON: media(ref("ModelList"))})},
        ),
        Operation(
            method="get",
            paths=prefixed("/models/{model}"),
            id="retrieveModel",
            tag=_TAG,
            summary="One of them",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            answers={200: answer("The model.", {JSON: media(ref("Model"))})},
        ),
    ]
