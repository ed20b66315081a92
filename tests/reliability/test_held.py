"""Objects and counts that a server still holds after its clients have gone."""

from __future__ import annotations

from calculators.kit.child_process.fair_turns import REMEMBERED as CLIENTS
from tests.reliability.held import Held, leaks

CLIENT = "calculators.kit.requests.client_identity.ClientIdentity"
RECORD = "calculators.kit.requests.request_record.RequestRecord"


def held(*children: str, **objects: int) -> Held:
    return Held(100.0, 20, 9, 5, dict.fromkeys(children, 100.0), objects)


def test_more_objects_than_before_are_left() -> None:
    assert leaks(held(**{RECORD: 100}), held(**{RECORD: 140})) == []
    (left,) = leaks(held(**{RECORD: 100}), held(**{RECORD: 200}))
    assert left == f"{RECORD}: 100 before, 200 after"


def test_what_a_cache_keeps_is_not_left_up_to_its_bound() -> None:
    most = 5 * CLIENTS
    before = held(**{CLIENT: 100})
    assert leaks(before, held(**{CLIENT: most})) == []
    assert len(leaks(before, held(**{CLIENT: most + 1}))) == 1
    assert leaks(before, held(**{CLIENT: 2 * most}), models=2) == []


def test_a_process_that_ends_when_it_is_idle_is_not_left() -> None:
    before = held("llm.engine of demo")
    long, grammars = "llm.prompt.long_process of demo", "llm.grammar_process of demo 2"
    assert leaks(before, held("llm.engine of demo", long, grammars)) == []
    (left,) = leaks(before, held("llm.engine of demo", "llm.engine of demo 2"))
    assert left == "children: 1 before, 2 after"
