"""A request to ``/v3/rerank`` and its other paths, checked.

One body serves clients of OpenVINO Model Server, Cohere, Jina, vLLM, Voyage, and of Hugging Face's
text-embeddings-inference (TEI). Members decide the form of the answer: ``texts`` is TEI's,
``top_k`` or ``truncation`` Voyage's. Error texts are OpenVINO Model Server's
(``rerank/rerank_utils.cpp``), where it has the error too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    Members,
    honoured,
    ignored,
    read_members,
    refused,
    table,
)
from calculators.kit.requests.readers import BOOLEAN, Value
from calculators.kit.requests.schema import array, flag, one_of, string, word
from calculators.text.rerank.documents import (
    DOCUMENTS_SCHEMA,
    MAX_ALL_CHARACTERS,
    MAX_RANK_FIELDS,
    TEXTS_SCHEMA,
    read_documents,
    read_rank_fields,
    texts_of,
)
from calculators.text.rerank.ranking import (
    COMMON_MEMBERS,
    MODEL,
    QUERY,
    Ranking,
    integer_with,
    read_cutting,
    wants_raw_scores,
)

_SIDES: Final = ("Left", "Right", "left", "right")
#: NVIDIA's words for TEI's ``truncate``: nothing, the end, the beginning.
_TRUNCATIONS: Final = ("NONE", "END", "START")


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
    if isinstance(value, str) and value.upper() in _TRUNCATIONS:
        return value.upper()
    words = ", ".join(f'"{each}"' for each in _TRUNCATIONS)
    raise fields.wrong_type(path, f"true, false, or one of {words}", value)


def _side(value: Any, path: str) -> str:
    if isinstance(value, str) and value in _SIDES:
        return value.lower()
    raise fields.wrong_type(path, 'one of "Left", "Right"', value)


RERANK_MEMBERS: Final[Members] = table(
    MODEL,
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
    ),
    honoured(
        "return_documents",
        Value(flag(), _boolean),
        "Repeat each document in its result; default false.",
    ),
    honoured("return_text", Value(flag(), _boolean), "TEI's name for `return_documents`."),
    honoured(
        "rank_fields",
        Value(array(string(), maxItems=MAX_RANK_FIELDS), read_rank_fields),
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
        Value(one_of(flag(), word(_TRUNCATIONS)), _truncate),
        "Score a long document by what fits with the query, not in chunks; default false.",
    ),
    honoured("truncation", BOOLEAN, "Voyage's name for `truncate`."),
    honoured("truncation_direction", Value(word(_SIDES), _side), "TEI's `truncation_side`."),
    *COMMON_MEMBERS,
    ignored("is TEI's for prompts of embedding models", "prompt_name"),
    refused("is not supported", "relevant_spans return_embeddings overlap_tokens overlap"),
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
