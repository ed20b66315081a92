"""The OpenAPI description of ``/tokenize`` and ``/detokenize`` on graphs of encoder models."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.members import Members, body_schema
from calculators.kit.requests.schema import (
    Schema,
    array,
    integer,
    nullable,
    one_of,
    record,
    ref,
    string,
)
from calculators.kit.tasks.endpoint import TaskEndpoint
from calculators.kit.tasks.operation import (
    JSON,
    TIMEOUT,
    TaskDescription,
    answer,
    media,
    paths_of,
    posted,
)
from calculators.text.text_models.tokenize_endpoint import DETOKENIZE_MEMBERS, MEMBERS

_IDS: Final = array(integer())
_OFFSETS: Final = array(array(integer(), minItems=2, maxItems=2))


def describe_tokenizing(
    model: str, tokenize: TaskEndpoint, detokenize: TaskEndpoint
) -> TaskDescription:
    """Return both operations, as `answer_tokenize` and `answer_detokenize` do them.

    ``model``: a name for the examples.
    """
    operations = (
        posted(
            paths_of(tokenize),
            id="tokenizeText",
            summary="The token ids of a text",
            body={
                JSON: media(
                    ref("TextTokenizeRequest"), text_of_a_query={"model": model, "text": "Hello"}
                )
            },
            answers={200: answer("The ids.", {JSON: media(ref("TextTokenizeResponse"))})},
        ),
        posted(
            paths_of(detokenize),
            id="detokenize",
            summary="The text of token ids",
            body={
                JSON: media(ref("DetokenizeRequest"), two_tokens={"model": model, "tokens": [5, 6]})
            },
            answers={200: answer("The text.", {JSON: media(ref("DetokenizeResponse"))})},
        ),
    )
    schemas = {
        "TextTokenizeRequest": with_timeout(MEMBERS),
        "TextTokenizeResponse": record(
            {
                "tokens": one_of(_IDS, array(_IDS), about="One list where there is one text."),
                "count": integer("Tokens of all texts, without padding.", minimum=0),
                "max_model_len": integer("The most tokens of a text.", minimum=1),
                "offsets": one_of(
                    _OFFSETS, array(_OFFSETS), about="The characters of each token, if asked for."
                ),
            },
            required=("tokens", "count", "max_model_len"),
        ),
        "DetokenizeRequest": with_timeout(DETOKENIZE_MEMBERS),
        "DetokenizeResponse": record(
            {"prompt": string("The text."), "content": string("The same.")},
            required=("prompt", "content"),
        ),
    }
    return TaskDescription(operations, schemas)


def with_timeout(members: Members) -> Schema:
    """Return the schema of a body with these members, and the one that the front reads."""
    body = body_schema(members)
    body["properties"]["timeout"] = nullable(TIMEOUT)
    return body
