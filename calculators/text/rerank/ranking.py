"""`Ranking`: the pairs of a request, and the way to their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import ABOUT_THE_CLIENT, Member, honoured, ignored
from calculators.kit.requests.readers import BOOLEAN, POSITIVE, STRING, Enumeration, Integer, Value
from calculators.kit.requests.schema import Schema, integer, string
from calculators.text.rerank.documents import check_text

#: Characters of a query; half of the model's length is its most.
MAX_QUERY_CHARACTERS: Final = 128 * 1024
#: Characters of an instruction.
MAX_INSTRUCTION_CHARACTERS: Final = 16 * 1024

QUERY_SCHEMA: Final[Schema] = string(maxLength=MAX_QUERY_CHARACTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """The parts of long texts that are scored.

    Attributes:
        max_tokens: tokens of a pair, special ones included; None: as many as the model takes.
        query_tokens, document_tokens: tokens of the query and of a document; the rest is dropped.
        chunks: chunks of a document, from its beginning; the rest is dropped. None: all.
        keeps_end: drop the beginning of texts that are too long, not their end.
    """

    max_tokens: int | None = None
    query_tokens: int | None = None
    document_tokens: int | None = None
    chunks: int | None = None
    keeps_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Pairs of texts, checked.

    Attributes:
        queries: one for all documents, or one for each.
        documents: at least one.
        path: the member with the documents, for errors.
        instruction: the task, for models that are given one; "" is the model's own.
    """

    queries: Sequence[str]
    documents: Sequence[str]
    path: str
    instruction: str = ""
    cutting: Cutting = Cutting()


def _query(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise RequestError(f"{path} is not a string", param=path)
    check_text(value, path, MAX_QUERY_CHARACTERS)
    return value


def _instruction(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise fields.wrong_type(path, "a string", value)
    check_text(value, path, MAX_INSTRUCTION_CHARACTERS)
    return value


def integer_with(error: str) -> Value:
    """Reader of an integer of at least 1, with OpenVINO Model Server's error for other types."""

    def read(value: Any, path: str) -> int:
        if type(fields.whole(value)) is not int:
            raise RequestError(error, param=path)
        return POSITIVE.read(value, path)

    return Value(integer(minimum=POSITIVE.minimum, maximum=POSITIVE.maximum), read)


#: The reader of a query.
QUERY: Final = Value(QUERY_SCHEMA, _query)

MODEL: Final = honoured(
    "model", STRING, "The name of the model; default the only one that answers.", minLength=1
)

#: Members of all endpoints, besides the model's name.
COMMON_MEMBERS: Final[tuple[Member, ...]] = (
    honoured(
        "instruction",
        Value(string(maxLength=MAX_INSTRUCTION_CHARACTERS), _instruction),
        "What makes a document relevant; for models that are given a task, such as Qwen3-Reranker.",
    ),
    honoured(
        "truncate_prompt_tokens",
        Integer(minimum=-1, refused={0: "leaves nothing; -1 is as much as the model takes"}),
        "Cut each pair at so many tokens, instead of scoring a long document in chunks.",
    ),
    honoured(
        "truncation_side",
        Enumeration(("left", "right")),
        "The side from which tokens are dropped; default right.",
    ),
    honoured("max_tokens_per_query", POSITIVE, "Tokens of the query; the rest is dropped."),
    honoured("max_tokens_per_doc", POSITIVE, "Tokens of each document; the rest is dropped."),
    honoured("use_activation", BOOLEAN, "false: scores as the model gives them."),
    honoured("activation", BOOLEAN, "The same as `use_activation`."),
    honoured("softmax", BOOLEAN, "The same as `use_activation`."),
    honoured("timeout", Value()),  # the front reads it, and knows the schema
    *ABOUT_THE_CLIENT.values(),
    *ignored("changes nothing in scores", "cache_salt service_tier mm_processor_kwargs"),
)


def read_cutting(body: dict[str, Any], *, chunks: int | None, truncates: bool) -> Cutting:
    """The cutting that the common members of a body ask for."""
    limit = body.get("truncate_prompt_tokens")
    return Cutting(
        max_tokens=None if limit is None or limit < 0 else limit,
        query_tokens=body.get("max_tokens_per_query"),
        document_tokens=body.get("max_tokens_per_doc"),
        chunks=1 if truncates or limit is not None else chunks,
        keeps_end=body.get("truncation_side") == "left",
    )


def wants_raw_scores(body: dict[str, Any]) -> bool:
    """Return whether a body asks for scores as the model gives them."""
    return any(body.get(name) is False for name in ("use_activation", "activation", "softmax"))
