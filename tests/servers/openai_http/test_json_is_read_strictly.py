"""What is JSON here: RFC 8259, in UTF-8, bounded, with one reading only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.openai_http.errors import HttpError
from servers.openai_http.json_body import parse_json


def parse(body: bytes, *, max_depth: int = 100, max_elements: int = 1000) -> Any:
    return parse_json(body, max_depth=max_depth, max_elements=max_elements)


def refusal(body: bytes, **limits: int) -> HttpError:
    with pytest.raises(HttpError) as raised:
        parse(body, **limits)
    assert raised.value.status == 400
    return raised.value


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "the body is empty; it must be a JSON object"),
        (b" \n", "the body is empty; it must be a JSON object"),
        (b'{"a":[1', "not valid JSON: line 1, byte 8: missing a comma or ] after"),
        (b'{"a":1}\n{}', "line 2, byte 1: the document root must not be followed by other"),
        (b"{'a':1}", "line 1, byte 2: missing a name for object member"),
        (b'{"a"/*c*/:1}', "line 1, byte 5: missing a colon"),
        (b'{"a":01}', "line 1, byte 7: missing a comma or }"),
        (b'{"a":0x1}', "line 1, byte 7: missing a comma or }"),
        (b'{"a":1,}', "line 1, byte 8: missing a name"),
        (b'{"a":NaN}', "line 1, byte 6: invalid value"),
        (b'{"a":-Infinity}', "invalid value"),
        (b'{"a":1e999}', "number too big"),
        (b'{"a":"\\udfff"}', "surrogate pair in string is invalid"),
        (b'{"\\ud800":1}', "surrogate pair in string is invalid"),
        (b'{"a":"x\ny"}', "line 1, byte 8: a control character in a string must be escaped"),
        (b'{"a":"\xff"}', "the body is not UTF-8: byte 7"),
        (b'{"a":"\xed\xa0\x80"}', "the body is not UTF-8: byte 7"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a":' + b"9" * 5000 + b"}", "more than 64 digits"),
    ],
)
def test_refused_with_the_place(body: bytes, text: str) -> None:
    assert text in refusal(body).message.replace("'", "")


def test_a_doubled_key_is_named() -> None:
    error = refusal(b'{"model":"a","tools":[{"x":1,"x":2}]}')
    assert error.message == 'the body has the key "x" twice in one object'
    assert error.param == "x"


def test_keys_may_repeat_in_different_objects() -> None:
    assert parse(b'[{"a":1},{"a":{"a":2}}]') == [{"a": 1}, {"a": {"a": 2}}]


def test_colons_quotes_and_brackets_in_strings_are_text() -> None:
    value = {'\\"{[:,[{\\': 'b\\":', "\\\\": '"\\"', '""': "::,,[[{{"}
    assert parse(json.dumps(value).encode(), max_depth=1, max_elements=3) == value


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_depth_is_bounded_before_parsing(pair: str) -> None:
    opening = b"[" if pair == "[]" else b'{"a":'
    closing = pair[1].encode()
    assert parse(opening * 99 + b"[]" + closing * 99) is not None
    assert "nested deeper than 100" in refusal(opening * 100 + b"[]" + closing * 100).message
    assert "nested deeper than 100" in refusal(opening * 100_000, max_elements=10**6).message


def test_the_number_of_values_is_bounded() -> None:
    assert len(parse(b"[" + b"1," * 99 + b"1]", max_elements=100)) == 100
    assert (
        "more than 100 JSON values" in refusal(b"[" + b"1," * 100 + b"1]", max_elements=100).message
    )
    assert "more than 100 JSON values" in refusal(b'"' * 10_000, max_elements=100).message


def test_numbers_are_exact() -> None:
    body = b'{"i":123456789012345678901234567890,"f":0.1234567890123456,"t":1.0}'
    value = parse(body)
    assert value == {"i": 123456789012345678901234567890, "f": 0.1234567890123456, "t": 1.0}
    assert isinstance(value["t"], float)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=30,
)


@given(value=JSON, ascii_only=st.booleans())
def test_all_of_json_is_read_as_the_standard_library_reads_it(value: Any, ascii_only: bool) -> None:
    assert parse(json.dumps(value, ensure_ascii=ascii_only).encode()) == value
