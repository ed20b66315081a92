"""The three rules for members that no endpoint has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    Integer,
    Members,
    check_object,
    check_spelling,
    honoured,
    leave_out,
    read_members,
    table,
)
from calculators.kit.requests.request_record import MOST_WARNINGS, RequestRecord, set_current_record
from calculators.kit.requests.unknown_members import UnknownMembers
from calculators.llm.requests.completions_request import CHAT_MEMBERS

KNOWN = table(honoured("size", Integer(minimum=1, maximum=8)))
BODY = {"size": 3, "colour": "red"}
CHAT = CHAT_MEMBERS


@pytest.fixture
def request_of(request: pytest.FixtureRequest) -> Iterator[Any]:
    def begin(rule: UnknownMembers) -> RequestRecord:
        record = RequestRecord("mine", unknown_members=rule)
        set_current_record(record)
        return record

    yield begin
    set_current_record(None)


def test_without_a_request_and_with_refuse_they_are_refused(request_of: Any) -> None:
    assert RequestRecord("mine").unknown_members is UnknownMembers.WARN
    for begin in (lambda: None, lambda: request_of(UnknownMembers.REFUSE)):
        begin()
        with pytest.raises(RequestError, match='Unknown member "colour"'):
            read_members(BODY, KNOWN)
        with pytest.raises(RequestError, match="no weather here"):
            leave_out(RequestError("no weather here"))


def test_a_warning_names_what_is_left_out(request_of: Any) -> None:
    record = request_of(UnknownMembers.WARN)
    assert read_members({**BODY, "weight": 1}, KNOWN) == {"size": 3}
    for _ in range(2):
        leave_out(RequestError("no weather here"))
    assert record.warnings == (
        'Unknown member "colour"',
        'Unknown member "weight"',
        "no weather here",
    )


@pytest.mark.parametrize(
    "name",
    [
        "tempurature",
        "temprature",
        "Temperature",
        "max_token",
        "maxTokens",
        "max-tokens",
        "mesages",
        "steam",
        "strem",
        "sotp",
        "stops",
        "logprob",
        "top_logprob",
        "frequence_penalty",
    ],
)
@pytest.mark.parametrize(
    "read", [read_members, lambda value, known: check_object(value, "", known)]
)
def test_a_likely_misspelling_is_refused_with_the_name_that_was_meant(
    request_of: Any, name: str, read: Callable[[dict[str, Any], Members], object]
) -> None:
    request_of(UnknownMembers.WARN)
    with pytest.raises(RequestError, match=rf'Unknown member "{name}"\. Did you mean "'):
        read({name: 1}, CHAT)


@pytest.mark.parametrize(
    "name",
    [
        "top_a",
        "top_n_sigma",
        "typical_p",
        "xtc_probability",
        "mirostat",
        "dry_multiplier",
        "num_ctx",
        "id_slot",
        "n_predict",
        "t_max_predict_ms",
        "reasoning_budget",
        "thread",
        "web_search_options",
        "prompt_cache_layout",
        "verbosity_level",
        "x",
        "q",
    ],
)
def test_members_of_other_servers_are_no_misspellings(request_of: Any, name: str) -> None:
    record = request_of(UnknownMembers.WARN)
    read_members({name: 1}, CHAT)
    assert len(record.warnings) == 1


def test_null_is_as_good_as_absent(request_of: Any) -> None:
    record = request_of(UnknownMembers.WARN)
    assert read_members({"size": 3, "colour": None}, KNOWN) == {"size": 3}
    assert record.warnings == ()


def test_ignored_members_leave_no_trace(request_of: Any) -> None:
    record = request_of(UnknownMembers.IGNORE)
    assert read_members({**BODY, "siz": 1}, KNOWN) == {"size": 3}
    check_object({**BODY, "siz": 1}, "outer", KNOWN)
    leave_out(RequestError("no weather here"))
    assert record.warnings == ()


def test_members_of_inner_objects_follow_the_same_rule(request_of: Any) -> None:
    record = request_of(UnknownMembers.WARN)
    check_object({"colour": 1}, "outer", KNOWN)
    assert record.warnings == ('Unknown member "outer.colour"',)
    check_spelling({"anything": 2}, "free", KNOWN)
    for check in (check_object, check_spelling):
        with pytest.raises(RequestError, match=r'"free\.siz"\. Did you mean "size"'):
            check({"siz": 1}, "free", KNOWN)


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
