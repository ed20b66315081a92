"""`JsonScanner`: JSON that is passed on compactly as it arrives."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.llm.parsers.json_scanner import JsonScanner
from tests.corpora import corpora

CASES: Final = corpora() / "parser_primitives.jsonl"


class Scanned(NamedTuple):
    """The output of a scanner; ``rest``: the text that it did not read."""

    passed_on: str
    rest: str
    is_done: bool
    is_broken: bool


def scan(chunks: Iterable[str]) -> Scanned:
    scanner, out, rest = JsonScanner(), list[str](), ""
    for chunk in chunks:
        place = 0 if scanner.is_done or scanner.is_broken else scanner.read(chunk, 0, out)
        rest += chunk[place if place or not rest else 0 :]
    return Scanned("".join(out), rest, scanner.is_done, scanner.is_broken)


def scan_both_ways(text: str) -> Scanned:
    whole = scan([text])
    assert scan(text) == whole
    return whole


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_a_document_is_passed_on_without_white_space(
    value: Any, indent: int | str | None, is_ascii: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    compact = json.dumps(value, separators=(",", ":"), ensure_ascii=is_ascii)
    assert scan_both_ways(text + " ,") == (compact, " ,", True, False)


@given(st.text('{}[]":,\\u0aA1-+.eE tfn\n') | st.text())
def test_complete_output_is_json_and_nothing_raises(text: str) -> None:
    scanned = scan_both_ways(text)
    if scanned.is_done:
        json.loads(scanned.passed_on)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("x", "x"),
        ("{1", "1"),
        ('{"a",', ","),
        ('{"a":}', "}"),
        ('{"a":1,}', "}"),
        ("[1,]", "]"),
        ("[1}", "}"),
        ("[01]", "1]"),
        ("[-]", "]"),
        ("[1.]", "]"),
        ("[1e]", "]"),
        ("[truth]", "th]"),
        ("[NaN]", "NaN]"),
        (r'["\d"]', 'd"]'),
        (r'["\u12g4"]', 'g4"]'),
        ("{'a'", "'a'"),
    ],
)
def test_broken_text_is_passed_on_from_where_it_breaks(text: str, rest: str) -> None:
    scanned = scan_both_ways(text)
    assert (scanned.rest, scanned.is_done, scanned.is_broken) == (rest, False, True)


def test_strings_are_kept_as_written_except_for_control_characters() -> None:
    written = r'["\u00e9 é \/ \" \ud83d\ude00 😀", " a : b "]'
    assert scan_both_ways(written).passed_on == written.replace('", "', '","')
    assert scan_both_ways('["a\n\tb\x01"]').passed_on == r'["a\n\tb\u0001"]'


def test_depth_is_not_limited_by_recursion() -> None:
    text = '{"a":' * 100_000 + "[]" + "}" * 100_000
    assert scan([text]) == (text, "", True, False)


@pytest.mark.parametrize(
    "case",
    [
        case
        for line in CASES.read_text(encoding="utf-8").splitlines()
        if (case := json.loads(line))["kind"] == "partial_json_builder"
    ],
    ids=lambda case: str(case["id"]),
)
def test_a_case_of_partial_json(case: dict[str, Any]) -> None:
    """Checked here: is it JSON so far, is it complete, and what follows?

        OpenVINO Model Server closes unfinished documents and compares them; nothing here does. The
    other kinds of cases are about that comparison, and about private states.
    """
    text = "".join(case["chunks"])
    scanned = scan(case["chunks"])
    if "error_at_last_chunk" in case:
        assert scanned.is_broken or scanned.rest
        return
    assert not scanned.is_broken
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        end = None
    assert scanned.is_done is (end is not None)
    assert scanned.rest == ("" if end is None else text[end:])
