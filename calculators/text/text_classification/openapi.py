"""The OpenAPI description of ``/moderations``, ``/classify`` and ``/predict``."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.schema import (
    Schema,
    array,
    const,
    flag,
    integer,
    number,
    one_of,
    record,
    ref,
    string,
)
from calculators.kit.tasks.operation import (
    JSON,
    MediaType,
    Operation,
    TaskDescription,
    answer,
    media,
    paths_of,
    posted,
    with_timeout,
)
from calculators.text.text_classification.endpoints import ENDPOINTS
from calculators.text.text_classification.node_options import CATEGORIES
from calculators.text.text_classification.request import (
    CLASSIFY_MEMBERS,
    MODERATION_MEMBERS,
    PREDICT_MEMBERS,
)
from calculators.text.text_models.info_endpoint import INFO_SCHEMAS, describe_info


def _by_category(schema: Schema) -> Schema:
    return record(dict.fromkeys(CATEGORIES, schema), required=CATEGORIES)


_MODERATION: Final[dict[str, Schema]] = {
    "Moderation": record(
        {
            "flagged": flag("Whether any category is flagged."),
            "categories": _by_category(flag()),
            "category_scores": _by_category(number()),
            "category_applied_input_types": _by_category(array(const("text"))),
        },
        required=("flagged", "categories", "category_scores", "category_applied_input_types"),
    ),
    "CreateModerationResponse": record(
        {
            "id": string(),
            "model": string("As the request has it, else the name of the model that is served."),
            "results": array(ref("Moderation")),
        },
        required=("id", "model", "results"),
    ),
}
_CLASSES: Final[dict[str, Schema]] = {
    "ClassifiedText": record(
        {
            "index": integer("The place of the text in the request.", minimum=0),
            "label": string("The class with the highest score."),
            "probs": array(number(), "A score for each class."),
            "num_classes": integer(minimum=1),
        },
        required=("index", "label", "probs", "num_classes"),
    ),
    "ClassifyResponse": record(
        {
            "id": string(),
            "object": const("list"),
            "created": integer("Seconds since 1970.", minimum=0),
            "model": string("As the request has it, else the name of the model that is served."),
            "data": array(ref("ClassifiedText")),
            "usage": record(
                {
                    "prompt_tokens": integer(minimum=0),
                    "total_tokens": integer(minimum=0),
                    "completion_tokens": integer(minimum=0, maximum=0),
                },
                required=("prompt_tokens", "total_tokens", "completion_tokens"),
            ),
        },
        required=("id", "object", "created", "model", "data", "usage"),
    ),
    "Prediction": record({"score": number(), "label": string()}, required=("score", "label")),
    "PredictResponse": one_of(
        array(ref("Prediction")),
        array(array(ref("Prediction"))),
        about="The classes of the text by their scores, the highest first; for an array of texts "
        "an array of these.",
    ),
}


def describe(model: str) -> TaskDescription:
    """Operations and schemas. ``model``: a name for the examples."""
    operations = (
        _operation(
            "moderations",
            "createModeration",
            "OpenAI",
            "The categories of harmful content that texts have",
            media(
                ref("CreateModerationRequest"),
                a_text={"model": model, "input": "Hello"},
                parts={"model": model, "input": [{"type": "text", "text": "Hello"}]},
            ),
            "CreateModerationResponse",
        ),
        _operation(
            "classify",
            "classify",
            "vLLM",
            "The classes of texts",
            media(ref("ClassifyRequest"), two_texts={"model": model, "input": ["Hello", "Hi"]}),
            "ClassifyResponse",
        ),
        _operation(
            "predict",
            "predict",
            "text-embeddings-inference",
            "The classes of texts and of pairs of texts",
            media(ref("PredictRequest"), a_text={"model": model, "inputs": "Hello"}),
            "PredictResponse",
        ),
    )
    schemas = {
        "CreateModerationRequest": with_timeout(MODERATION_MEMBERS),
        "ClassifyRequest": with_timeout(CLASSIFY_MEMBERS),
        "PredictRequest": with_timeout(PREDICT_MEMBERS),
        **_MODERATION,
        **_CLASSES,
    }
    return TaskDescription((*operations, describe_info()), {**schemas, **INFO_SCHEMAS})


def _operation(
    endpoint: str, name: str, tag: str, summary: str, body: MediaType, response: str
) -> Operation:
    return posted(
        paths_of(ENDPOINTS[endpoint]),
        id=name,
        tag=tag,
        summary=summary,
        body={JSON: body},
        answers={200: answer("The classes.", {JSON: media(ref(response))})},
    )
