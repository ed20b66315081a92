"""The vectors of redaction."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.language.redaction.redactors import ArgumentsRedactor, TextRedactor
from calculators.language.text_patterns import Patterns
from tests.calculators.language.redaction.cases import read_cases

_CASES = read_cases()


@pytest.mark.parametrize("by_character", [False, True])
@pytest.mark.parametrize("case", _CASES, ids=[case["id"] for case in _CASES])
def test_a_vector_gives_the_expected_text_and_holds_no_more(
    case: dict[str, Any], by_character: bool
) -> None:
    patterns = Patterns(case["words"], case["patterns"], ignore_case=case["ignore_case"])
    kind = TextRedactor if case["kind"] == "text" else ArgumentsRedactor
    redactor = kind(patterns, case["mask"])
    pieces = "".join(case["pieces"]) if by_character else case["pieces"]
    made, most = "", 0
    for piece in pieces:
        made += redactor.feed(piece)
        most = max(most, redactor.held)
    made += redactor.finish()
    assert made == case["expected"]
    assert most <= case["max_held_by_character" if by_character else "max_held"]
