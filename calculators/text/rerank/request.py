"""Requests to ``/v3/rerank`` and ``/v1/score``, checked.

A `RerankRequest` has one query and documents, which are strings or objects with texts; a
`ScoreRequest` has pairs of texts. Both become a `Ranking`, which the model scores.

One body of ``/v3/rerank`` serves clients of OpenVINO Model Server, Cohere, Jina, vLLM, Voyage, and
of Hugging Face's text-embeddings-inference (TEI). Members decide the form of the answer: ``texts``
is TEI's, ``top_k`` or ``truncation`` Voyage's. ``/v1/score`` is vLLM's. Error texts are OpenVINO
Model Server's (``rerank/rerank_utils.cpp``), where it has the error too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from calculators.kit.requests import fields, schema
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    ABOUT_THE_CLIENT,
    BOOLEAN,
    DEFAULT_MODEL,
    POSITIVE,
    Enumeration,
    Integer,
    Member,
    Members,
    Value,
    honoured,
    ignored,
    read_members,
    refused,
    table,
)

#: Characters of one document. It is cut into chunks that the model takes.
MAX_CHARACTERS: Final = 1024 * 1024
#: Characters of all documents of one request.
MAX_ALL_CHARACTERS: Final = 16 * 1024 * 1024
#: Fields of an object that may be joined to its text.
MAX_RANK_FIELDS: Final = 64

TEXTS_SCHEMA: Final = schema.array(schema.string(maxLength=MAX_CHARACTERS), minItems=1)
DOCUMENTS_SCHEMA: Final = schema.one_of(
    TEXTS_SCHEMA,
    schema.array(
        schema.anything("An object with ``text``, or with the members that ``rank_fields`` names."),
        minItems=1,
    ),
)


def read_documents(value: Any, path: str) -> list[Any]:
    """Check the documents' types: at least one, all strings or all objects."""
    if not isinstance(value, list):
        raise RequestError(f"{path} is not an array", param=path)
    if not value:
        raise RequestError(f"{path} array should not be empty", param=path)
    kind = type(value[0])
    for place, document in enumerate(value):
        if not isinstance(document, str | dict):
            raise RequestError(
                f"{path} array element is neither string nor object", param=f"{path}[{place}]"
            )
        if type(document) is not kind:
            raise RequestError(
                "all documents have to be the same type (string or objects)",
                param=f"{path}[{place}]",
            )
    return value


def read_rank_fields(value: Any, path: str) -> list[str]:
    """Check names of members."""
    if not isinstance(value, list):
        raise RequestError(f"{path} is not an array", param=path)
    if len(value) > MAX_RANK_FIELDS:
        raise fields.above(path, len(value), MAX_RANK_FIELDS)
    for place, name in enumerate(value):
        if not isinstance(name, str):
            raise RequestError(f"{path} array element is not a string", param=f"{path}[{place}]")
    return value


def texts_of(documents: Sequence[Any], rank_fields: Sequence[str], path: str) -> list[str]:
    """Return the text that stands for each document.

    It is a string itself, or the member ``text`` of an object. With ``rank_fields`` it is a line
    ``name: value`` for each of these members that the object has.

    Raises:
        RequestError: an object has none of the members, or they are not strings; too long.
    """
    texts: list[str] = []
    total = 0
    for place, document in enumerate(documents):
        where = f"{path}[{place}]"
        text = document if isinstance(document, str) else _text_of(document, rank_fields, where)
        check_text(text, where, MAX_CHARACTERS)
        total += len(text)
        if total > MAX_ALL_CHARACTERS:
            raise fields.invalid(
                path, f"the characters in all are above the maximum {MAX_ALL_CHARACTERS}"
            )
        texts.append(text)
    return texts


def check_text(text: str, path: str, most: int) -> None:
    """Refuse a text of more than ``most`` characters, and one that is not Unicode."""
    fields.check_most(path, len(text), "characters", most)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise fields.invalid(
                path, "the text is not Unicode (half of a surrogate pair)"
            ) from None


def _text_of(document: Mapping[str, Any], rank_fields: Sequence[str], where: str) -> str:
    if not rank_fields:
        return _member(document, "text", where)
    found = [name for name in rank_fields if document.get(name) is not None]
    if not found:
        raise RequestError("document has none of the members that rank_fields names", param=where)
    return "\n".join(f"{name}: {_member(document, name, where)}" for name in found)


def _member(document: Mapping[str, Any], name: str, where: str) -> str:
    value = document.get(name)
    if isinstance(value, str):
        return value
    # The names of members are the client's, except this one.
    shown = name if name == "text" else "member"
    if value is None:
        raise RequestError(f"document {shown} field is missing", param=f"{where}.{shown}")
    raise RequestError(f"document {shown} field have to be string", param=f"{where}.{shown}")


#: Characters of a query; half of the model's length is its most.
MAX_QUERY_CHARACTERS: Final = 128 * 1024
#: Characters of an instruction.
MAX_INSTRUCTION_CHARACTERS: Final = 16 * 1024

QUERY_SCHEMA: Final = schema.string(maxLength=MAX_QUERY_CHARACTERS)


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

    return Value(schema.integer(minimum=POSITIVE.minimum, maximum=POSITIVE.maximum), read)


#: The reader of a query.
QUERY: Final = Value(QUERY_SCHEMA, _query)

#: Members of all endpoints, besides the model's name.
COMMON_MEMBERS: Final[tuple[Member, ...]] = (
    honoured(
        "instruction",
        Value(schema.string(maxLength=MAX_INSTRUCTION_CHARACTERS), _instruction),
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


def read_cutting(body: Mapping[str, Any], *, chunks: int | None, truncates: bool) -> Cutting:
    """Return the cutting that the common members of a body ask for."""
    limit = body.get("truncate_prompt_tokens")
    return Cutting(
        max_tokens=None if limit is None or limit < 0 else limit,
        query_tokens=body.get("max_tokens_per_query"),
        document_tokens=body.get("max_tokens_per_doc"),
        chunks=1 if truncates or limit is not None else chunks,
        keeps_end=body.get("truncation_side") == "left",
    )


def wants_raw_scores(body: Mapping[str, Any]) -> bool:
    """Return whether a body asks for scores as the model gives them."""
    return any(body.get(name) is False for name in ("use_activation", "activation", "softmax"))


_SIDES: Final = ("Left", "Right", "left", "right")
#: NVIDIA's words for TEI's ``truncate``: nothing, the end, the beginning.
_TRUNCATIONS: Final = ("NONE", "END", "START", "none", "end", "start")


class RerankForm(Enum):
    """The form of an answer."""

    #: OpenVINO Model Server's, Cohere's, Jina's and vLLM's are one.
    RESULTS = auto()
    TEI = auto()
    VOYAGE = auto()


def _boolean(value: Any, path: str) -> bool:
    if value is not True and value is not False:
        raise RequestError(f"{path} accepts boolean values", param=path)
    return value


def _truncate(value: Any, path: str) -> bool | str:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _TRUNCATIONS:
        return value.upper()
    words = ", ".join(f'"{each}"' for each in _TRUNCATIONS)
    raise fields.wrong_type(path, f"true, false, or one of {words}", value)


def _side(value: Any, path: str) -> str:
    if isinstance(value, str) and value in _SIDES:
        return value.lower()
    raise fields.wrong_type(path, 'one of "Left", "Right"', value)


RERANK_MEMBERS: Final[Members] = table(
    DEFAULT_MODEL,
    honoured("query", QUERY, is_required=True),
    honoured(
        "documents",
        Value(DOCUMENTS_SCHEMA, read_documents),
        "Strings or objects, not both. All together have at most "
        f"{MAX_ALL_CHARACTERS} characters; the node's option max_allowed_chunks is the most "
        "documents, and the most chunks.",
    ),
    honoured(
        "texts",
        Value(TEXTS_SCHEMA, read_documents),
        "TEI's name for `documents`; the answer is TEI's too: an array.",
    ),
    honoured("top_n", integer_with("top_n accepts integer values"), "The most results."),
    honoured(
        "top_k",
        integer_with("top_k accepts integer values"),
        "Voyage's name for `top_n`; the answer is Voyage's too: `data` instead of `results`.",
        beside=schema.one_of(
            schema.record({"top_k": schema.const(None)}),
            schema.record({"top_n": schema.const(None)}),
        ),
    ),
    honoured(
        "return_documents",
        Value(schema.flag(), _boolean),
        "Repeat each document in its result; default false.",
    ),
    honoured("return_text", Value(schema.flag(), _boolean), "TEI's name for `return_documents`."),
    honoured(
        "rank_fields",
        Value(schema.array(schema.string(), maxItems=MAX_RANK_FIELDS), read_rank_fields),
        "Members of the documents that are ranked, in this order; default `text`.",
    ),
    honoured(
        "max_chunks_per_doc",
        integer_with("max_chunks_per_doc accepts integer values"),
        "Chunks of each document, from its beginning; the rest is dropped. Default all.",
    ),
    honoured("raw_scores", BOOLEAN, "Scores as the model gives them; default false."),
    honoured(
        "truncate",
        Value(schema.one_of(schema.flag(), schema.word(_TRUNCATIONS)), _truncate),
        "Score a long document by what fits with the query, not in chunks; default false.",
    ),
    honoured("truncation", BOOLEAN, "Voyage's name for `truncate`."),
    honoured("truncation_direction", Value(schema.word(_SIDES), _side), "TEI's `truncation_side`."),
    *COMMON_MEMBERS,
    ignored("is TEI's for prompts of embedding models", "prompt_name"),
    refused("is not supported", "relevant_spans return_embeddings overlap_tokens overlap"),
)


#: Bodies that have documents, under one of the names.
_GIVEN: Final = {"not": schema.const(None)}
RERANK_NAMED: Final = schema.one_of(
    schema.record({"documents": _GIVEN, "texts": schema.const(None)}, required=("documents",)),
    schema.record({"texts": _GIVEN, "documents": schema.const(None)}, required=("texts",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankRequest:
    """A request, checked.

    Attributes:
        model: the name that the client used; "" if it used none.
        ranking: one query, and the documents' texts.
        documents: the documents as they came.
        form: the form of the answer.
        top_n: the most results; None: all.
        returns_documents: repeat each document in its result.
        raw_scores: scores as the model gives them, not between 0 and 1.
    """

    model: str
    ranking: Ranking
    documents: Sequence[Any]
    form: RerankForm
    top_n: int | None
    returns_documents: bool
    raw_scores: bool


def parse_rerank_request(body: object) -> RerankRequest:
    """Return the request of a parsed JSON body.

    Takes time for as much text as a body may have: for a thread, unless the body is small.

    Raises:
        RequestError: INVALID_ARGUMENT, with the member that is wrong, or that is not known.
    """
    read = read_members(fields.body_object(body), RERANK_MEMBERS)
    if read.get("query") is None:
        raise RequestError("query field is missing in request", param="query")
    path = _either(read, "documents", "texts") or "documents"
    if path not in read:
        raise RequestError("documents field is missing in request", param="documents")
    documents = read[path]
    truncate = read.get("truncate", False)
    truncates = truncate not in (False, "NONE") or read.get("truncation") is True
    if truncate == "START":
        read["truncation_side"] = "left"
    elif side := read.get("truncation_direction"):
        read["truncation_side"] = side
    return RerankRequest(
        model=read.get("model", ""),
        ranking=Ranking(
            queries=(read["query"],),
            documents=texts_of(documents, read.get("rank_fields", ()), path),
            path=path,
            instruction=read.get("instruction", ""),
            cutting=read_cutting(read, chunks=read.get("max_chunks_per_doc"), truncates=truncates),
        ),
        documents=documents,
        form=_form(read),
        top_n=read.get(_either(read, "top_n", "top_k") or "top_n"),
        returns_documents=read.get("return_documents", False) or read.get("return_text", False),
        raw_scores=read.get("raw_scores", False) or wants_raw_scores(read),
    )


def _form(read: Mapping[str, Any]) -> RerankForm:
    if "texts" in read:
        return RerankForm.TEI
    if "top_k" in read or "truncation" in read:
        return RerankForm.VOYAGE
    return RerankForm.RESULTS


def _either(read: Mapping[str, Any], first: str, second: str) -> str | None:
    """Return the name of the one of two members that a body has.

    Raises:
        RequestError: it has both.
    """
    if first in read and second in read:
        raise fields.invalid(second, f"{first} and {second} are two names of one member; send one")
    return first if first in read else second if second in read else None


#: Names of the first and the second text of pairs: vLLM has had all of them.
_NAMES: Final = (("text_1", "text_2"), ("queries", "documents"), ("data_1", "data_2"))


def _texts(value: Any, path: str) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise fields.wrong_type(path, "a string or an array of strings", value)
    for place, text in enumerate(read_documents(value, path)):
        if not isinstance(text, str):
            raise fields.wrong_type(f"{path}[{place}]", "a string", text)
    return value


_FIRST: Final = schema.one_of(QUERY_SCHEMA, schema.array(QUERY_SCHEMA, minItems=1))
_SECOND: Final = schema.one_of(TEXTS_SCHEMA["items"], TEXTS_SCHEMA)


def _names(first: str, second: str) -> tuple[Any, Any]:
    return (
        honoured(first, Value(_FIRST, _texts), f"One text for all of `{second}`, or as many."),
        honoured(second, Value(_SECOND, _texts), "The texts that are scored."),
    )


def _with_these(first: str, second: str) -> schema.Schema:
    others = {name: schema.const(None) for names in _NAMES for name in names}
    return schema.record({**others, first: _FIRST, second: _SECOND}, required=(first, second))


SCORE_MEMBERS: Final[Members] = table(
    DEFAULT_MODEL,
    *(member for names in _NAMES for member in _names(*names)),
    *COMMON_MEMBERS,
)


#: Bodies that have both texts, under one pair of names.
SCORE_NAMED: Final = schema.one_of(*(_with_these(*names) for names in _NAMES))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRequest:
    """A request, checked.

    Attributes:
        model: the name that the client used; "" if it used none.
        ranking: the pairs.
        raw_scores: scores as the model gives them, not between 0 and 1.
    """

    model: str
    ranking: Ranking
    raw_scores: bool


def parse_score_request(body: object) -> ScoreRequest:
    """Return the request of a parsed JSON body.

    Takes time for as much text as a body may have: for a thread, unless the body is small.

    Raises:
        RequestError: INVALID_ARGUMENT, with the member that is wrong, or that is not known.
    """
    read = read_members(fields.body_object(body), SCORE_MEMBERS)
    first, second = _used_names(read)
    queries, documents = read[first], texts_of(read[second], (), second)
    if len(queries) not in (1, len(documents)):
        raise fields.invalid(
            first,
            f"{len(queries)} texts cannot be paired with the {len(documents)} of {second}: "
            "expected one, or as many",
        )
    for place, query in enumerate(queries):
        where = f"{first}[{place}]" if len(queries) > 1 else first
        check_text(query, where, MAX_QUERY_CHARACTERS)
    return ScoreRequest(
        model=read.get("model", ""),
        ranking=Ranking(
            queries=queries,
            documents=documents,
            path=second,
            instruction=read.get("instruction", ""),
            cutting=read_cutting(read, chunks=None, truncates=False),
        ),
        raw_scores=wants_raw_scores(read),
    )


def _used_names(read: Mapping[str, Any]) -> tuple[str, str]:
    used = [names for names in _NAMES if names[0] in read or names[1] in read]
    if len(used) > 1:
        wrong = next(name for name in used[1] if name in read)
        raise fields.invalid(wrong, f"send {used[0][0]} and {used[0][1]}, or other names, not both")
    names = used[0] if used else _NAMES[0]
    for name in names:
        if name not in read:
            raise fields.missing(name, "a string or an array of strings")
    return names
