"""Redacted arguments of calls: read as clients read them, written as the model wrote them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calculators.language.redaction.redactors import ArgumentsRedactor
from calculators.language.testing import every_cut
from calculators.language.text_patterns import Patterns
from tests.calculators.language.redaction.cases import redacted_whole

_WORDS = ("ab", "cab", 'a"', "true", "12")
_EXPRESSIONS = (r"\bc\b", r"\d{4,6}", "\U0001f600.")


def fed(patterns: Patterns, pieces: list[str] | str, mask: str = "*") -> str:
    redactor = ArgumentsRedactor(patterns, mask)
    return "".join([*map(redactor.feed, pieces), redactor.finish()])


def _redacted_value(value: Any) -> Any:
    match value:
        case str():
            return redacted_whole(value, _WORDS, _EXPRESSIONS)
        case bool() | None:
            return value
        case int() | float():
            text = json.dumps(value)
            made = redacted_whole(text, _WORDS, _EXPRESSIONS)
            return value if made == text else made
        case list():
            return [_redacted_value(each) for each in value]
        case _:
            return [[_redacted_value(key), _redacted_value(each)] for key, each in value.items()]


_TEXTS = st.text('abc "\\\n1\U0001f600é', max_size=8)
_VALUES = st.recursive(
    st.one_of(
        _TEXTS,
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.none(),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=120, deadline=None)
@given(value=_VALUES, is_ascii=st.booleans(), data=st.data())
def test_a_client_reads_redacted_texts_however_the_json_is_cut(
    value: Any, is_ascii: bool, data: st.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    made = fed(Patterns(_WORDS, _EXPRESSIONS), pieces)
    assert json.loads(made, object_pairs_hook=lambda pairs: [list(pair) for pair in pairs]) == (
        _redacted_value(value)
    )


@settings(max_examples=60, deadline=None)
@given(st.text('ab1"\\u{:tre', max_size=9))
def test_all_cuts_of_any_text_give_the_same_result(text: str) -> None:
    patterns = Patterns(("ab", "tre", "1a", "ruer"), (r"\b1\b", "[be]{2,3}"))
    expected = fed(patterns, [text])
    for pieces in every_cut(text):
        assert fed(patterns, pieces) == expected, pieces


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "say \\u0070\\u0061ss"}', '{"a": "say *"}'),
        ('{"a":\t"b\\u0063"}', '{"a":\t"b\\u0063"}'),
        ('{"pass": [true, null, -1.5e3]}', '{"*": [true, null, -1.5e3]}'),
        ('{"n": 4111, "m": 41112}', '{"n": "*", "m": "*2"}'),
        ('{"a": "pas', '{"a": "pas'),
        ('{"a": "x\\u00', '{"a": "x\\u00'),
        ('{"n": 4111', '{"n": "*"'),
        ("my pass is {", "my * is {"),
        ('{pass: "pass"}', '{*: "*"}'),
        ("```pass```", "```*```"),
        ("12pass", "12*"),
        ('{"a": "\\ud83dpass"}', '{"a": "\\ud83d*"}'),
        ('{"a": "\\/pass\\q"}', '{"a": "\\/*\\q"}'),
    ],
)
def test_arguments_become(text: str, expected: str) -> None:
    patterns = Patterns(("pass",), (r"\d{4}",))
    assert fed(patterns, [text]) == fed(patterns, text) == expected


def test_the_mask_is_escaped_in_strings_and_not_elsewhere() -> None:
    patterns = Patterns(("pass",), ())
    assert fed(patterns, '{"a": "pass"}', '"\\') == '{"a": "\\"\\\\"}'
    assert fed(patterns, "pass", '"') == '"'


def test_a_number_without_end_is_not_held_without_end() -> None:
    redactor = ArgumentsRedactor(Patterns(("55",), ()), "*")
    made = redactor.feed('{"n": ' + "1" * 60)
    assert (made, redactor.held) == ('{"n": ', 60)
    made = redactor.feed("1" * 40)
    assert (made, redactor.held) == ("1" * 100, 0)
    assert redactor.feed("1551}") == "101}"
    assert json.loads(fed(Patterns(("55",), ()), f"[{'15' * 20}55{'1' * 40}]")) == [
        "15" * 19 + "1*5" + "1" * 40
    ]


def test_literals_are_held_only_where_a_match_may_begin() -> None:
    redactor = ArgumentsRedactor(Patterns(("rust",), ()), "*")
    assert redactor.feed('{"a": t') == '{"a": t'
    assert redactor.feed("ru") == ""
    assert redactor.feed("e, ") == "rue, "
    assert redactor.feed("trust") == "t*"
