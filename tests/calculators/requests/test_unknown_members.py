"""The three rules for members that no endpoint has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from calculators.requests.http_payload import RequestError
from calculators.requests.members import (
    check_object,
    check_spelling,
    honoured,
    read_members,
    table,
)
from calculators.requests.readers import Integer
from calculators.requests.request_record import (
    MOST_WARNINGS,
    RequestRecord,
    set_current_record,
)
from calculators.requests.unknown_members import UnknownMembers

KNOWN = table(honoured("size", Integer(minimum=1, maximum=8)))
BODY = {"size": 3, "siz": 1, "colour": "red"}


@pytest.fixture
def request_of(request: pytest.FixtureRequest) -> Iterator[Any]:
    def begin(rule: UnknownMembers) -> RequestRecord:
        record = RequestRecord("mine", unknown_members=rule)
        set_current_record(record)
        return record

    yield begin
    set_current_record(None)


def test_without_a_request_and_by_default_they_are_refused(request_of: Any) -> None:
    with pytest.raises(RequestError, match=r'Unknown member "siz"\. Did you mean "size"'):
        read_members(BODY, KNOWN)
    assert RequestRecord("mine").unknown_members is UnknownMembers.REFUSE
    request_of(UnknownMembers.REFUSE)
    with pytest.raises(RequestError, match='Unknown member "siz"'):
        read_members(BODY, KNOWN)


def test_a_warning_names_each_and_the_nearest_name(request_of: Any) -> None:
    record = request_of(UnknownMembers.WARN)
    assert read_members(BODY, KNOWN) == {"size": 3}
    assert record.warnings == (
        'Unknown member "siz". Did you mean "size"?',
        'Unknown member "colour"',
    )


def test_null_is_as_good_as_absent(request_of: Any) -> None:
    record = request_of(UnknownMembers.WARN)
    assert read_members({"size": 3, "siz": None}, KNOWN) == {"size": 3}
    assert record.warnings == ()


def test_ignored_members_leave_no_trace(request_of: Any) -> None:
    record = request_of(UnknownMembers.IGNORE)
    assert read_members(BODY, KNOWN) == {"size": 3}
    check_object(BODY, "outer", KNOWN)
    assert record.warnings == ()


def test_members_of_inner_objects_follow_the_same_rule(request_of: Any) -> None:
    record = request_of(UnknownMembers.WARN)
    check_object({"siz": 1}, "outer", KNOWN)
    check_spelling({"siz": 1, "anything": 2}, "free", KNOWN)
    assert record.warnings == (
        'Unknown member "outer.siz". Did you mean "size"?',
        'Unknown member "free.siz". Did you mean "size"?',
    )


def test_wrong_values_are_refused_under_every_rule(request_of: Any) -> None:
    for rule in UnknownMembers:
        request_of(rule)
        with pytest.raises(RequestError, match="above the maximum 8"):
            read_members({"size": 9}, KNOWN)


def test_a_body_of_many_unknown_members_costs_a_few_warnings(request_of: Any) -> None:
    record = request_of(UnknownMembers.WARN)
    body = {f"name{number}": number for number in range(20_000)}
    assert read_members({**body, "size": 3}, KNOWN) == {"size": 3}
    assert len(record.warnings) == MOST_WARNINGS
