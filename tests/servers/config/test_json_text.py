"""JSON with places: every value's line and column."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.config.json_text import JsonSyntaxError, parse_json

TEXT = """{
  "a": [1, {"b\\"c": null}],
  "d": {"e": "[,]{:}", "f": []}, "g": true
}
"""


def test_a_members_place_is_its_key_and_an_items_place_its_beginning() -> None:
    assert parse_json(TEXT).places == {
        "": (1, 1),
        "a": (2, 3),
        "a[0]": (2, 9),
        "a[1]": (2, 12),
        'a[1].b"c': (2, 13),
        "d": (3, 3),
        "d.e": (3, 9),
        "d.f": (3, 24),
        "g": (3, 34),
    }


def test_a_duplicate_key_is_reported() -> None:
    document = parse_json('{"a": 1,\n "b": {"a": 1, "a": 2},\n "a": 3}')
    assert document.repeated == {"b.a": (2, 16), "a": (3, 2)}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", (1, 1)),
        ('{"a": 1', (1, 8)),
        ('{\n  "a" 1}', (2, 7)),
        ('{"a": NaN}', (1, 1)),
        ("[" * 100_000, (1, 1)),
        ("1" * 10_000, (1, 1)),
        ("{'a': 1}", (1, 2)),
        ('{"a": 1} // no', (1, 10)),
    ],
)
def test_invalid_json_is_refused_with_its_place(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(JsonSyntaxError) as caught:
        parse_json(text)
    assert (caught.value.line, caught.value.column) == place


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_json("\ufeff[1]").value == [1]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 0, 2]))
def test_every_value_has_its_place(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    document = parse_json(text)
    assert document.value == value
    assert not document.repeated or len(document.places) > 0  # paths with odd keys may coincide
    lines = text.split("\n")
    for line, column in document.places.values():
        assert lines[line - 1][column - 1] in '{["-0123456789tfn'
