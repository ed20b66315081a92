"""Members that the bodies of every task's endpoints have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, honoured, ignored, table
from calculators.kit.requests.readers import STRING, Value

#: Members that every endpoint has, also one that does not generate.
EVERYWHERE: Final[Members] = table(
    honoured(
        "model",
        STRING,
        "The name of a model or graph that is served.",
        is_required=True,
        minLength=1,
    ),
    honoured("timeout", Value()),  # the front reads it, and knows the schema
)

#: Members of requests for embeddings and the like that change nothing in the answer.
ABOUT_THE_CLIENT: Final[Members] = table(
    ignored(
        "says who asks, or what is kept or counted elsewhere",
        "user metadata safety_identifier priority request_id",
    ),
)


def read_model(body: Mapping[str, Any]) -> str:
    """Return the name of the model in a checked body.

    Raises:
        RequestError: it is missing or empty.
    """
    model: str = body.get("model", "")
    if not model:
        raise fields.missing("model", "the name of the model that is to answer")
    return model
