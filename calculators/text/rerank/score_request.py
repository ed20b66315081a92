"""A request to ``/v1/score``, vLLM's endpoint for pairs of texts, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, honoured, read_members, table
from calculators.kit.requests.readers import Value
from calculators.kit.requests.schema import Schema, array, one_of
from calculators.text.rerank.documents import TEXTS_SCHEMA, check_text, read_documents, texts_of
from calculators.text.rerank.ranking import (
    COMMON_MEMBERS,
    MAX_QUERY_CHARACTERS,
    MODEL,
    QUERY_SCHEMA,
    Ranking,
    read_cutting,
    wants_raw_scores,
)

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


def _names(first: str, second: str) -> tuple[Any, Any]:
    queries: Schema = one_of(QUERY_SCHEMA, array(QUERY_SCHEMA, minItems=1))
    documents: Schema = one_of(TEXTS_SCHEMA["items"], TEXTS_SCHEMA)
    return (
        honoured(first, Value(queries, _texts), f"One text for all of `{second}`, or as many."),
        honoured(second, Value(documents, _texts), "The texts that are scored."),
    )


SCORE_MEMBERS: Final[Members] = table(
    MODEL,
    *(member for names in _NAMES for member in _names(*names)),
    *COMMON_MEMBERS,
)


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
