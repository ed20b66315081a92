"""The OpenAPI document and the parser agree: both come from one declaration."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    Boolean,
    Enumeration,
    Integer,
    Member,
    Number,
    Standing,
    String,
)
from calculators.llm.endpoint import LlmEndpoint
from calculators.llm.endpoints import ENDPOINTS
from tests.example_counts import examples

_SCALARS: Final = [
    pytest.param(member, id=f"{endpoint.path}-{name}")
    for endpoint in ENDPOINTS
    for name, member in endpoint.handling().members.items()
    if isinstance(member.reader, Boolean | Enumeration | Integer | Number | String)
]
_VALUES: Final = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(-3, 3),
    st.sampled_from([2**31 - 1, 2**31, 2**32 - 1, 2**32, 1e-60, 1e300]),
    st.floats(),
    st.floats(-3, 3),
    st.text(max_size=3),
    st.sampled_from(["low", "medium", "high", "none", "left", "auto"]),
    st.lists(st.integers(), max_size=1),
    st.just({}),
)


@pytest.mark.parametrize("member", _SCALARS)
@settings(max_examples=examples(50))
@given(value=_VALUES)
def test_the_schema_allows_what_the_reader_accepts(member: Member, value: Any) -> None:
    with contextlib.suppress(RequestError):
        member.reader.read(value, member.name)
        assert list(Draft202012Validator(member.reader.schema("")).iter_errors(value)) == []


@pytest.mark.parametrize("member", _SCALARS)
def test_the_ends_of_a_range_are_accepted_by_both(member: Member) -> None:
    schema = member.reader.schema("")
    for bound in ("minimum", "maximum"):
        if bound in schema:
            assert member.reader.read(schema[bound], member.name) == schema[bound]


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.path)
def test_members_that_have_an_effect_are_described(endpoint: LlmEndpoint) -> None:
    """``timeout`` is the front's own."""
    for name, member in endpoint.handling().members.items():
        if member.standing is Standing.HONOURED and name != "timeout":
            assert member.schema().keys() - {"description"}, name
