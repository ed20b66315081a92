"""Strict JSON: RFC 8259, in UTF-8, bounded, with one reading only."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.fronts.http.body import parse_json
from servers.fronts.http.errors import HttpError
from tests.example_counts import examples


def parse(body: bytes, *, max_depth: int = 100, max_elements: int = 30_000) -> Any:
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
        (b'{"a":[71.976931348623159e+307]}', "number too big"),
        (b'{"a":"\\udfff"}', "surrogate pair in string is invalid"),
        (b'{"\\ud800":1}', "surrogate pair in string is invalid"),
        (b'{"a":"x\ny"}', "line 1, byte 8: a control character in a string must be escaped"),
        (b'{"a":1}\0', "line 1, byte 8: the document root must not be followed by other"),
        (b'{"a":1}\0:\0"', "line 1, byte 8: the document root must not be followed by other"),
        (b"[]\n\0{", "line 2, byte 1: the document root must not be followed by other"),
        (b'"a"\0', "line 1, byte 4: the document root must not be followed by other"),
        (b'{"a"\0:1}', "line 1, byte 5: missing a colon"),
        (b'{"a":\0 1}', "line 1, byte 6: invalid value"),
        (b'{"a":"x\0y"}', "line 1, byte 8: a control character in a string must be escaped"),
        (b"\0", "line 1, byte 1: invalid value"),
        (b"\0{}", "line 1, byte 1: invalid value"),
        (b'{"a":"\xff"}', "the body is not UTF-8: byte 7"),
        (b'{"a":"\xed\xa0\x80"}', "the body is not UTF-8: byte 7"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a":' + b"9" * 5000 + b"}", "more than 64 digits"),
    ],
)
def test_invalid_json_is_refused_with_the_place(body: bytes, text: str) -> None:
    assert text in refusal(body).message.replace("'", "")


def test_a_duplicate_key_is_named() -> None:
    error = refusal(b'{"model":"a","tools":[{"x":1,"x":2}]}')
    assert error.message == 'the body has the key "x" twice in one object'
    assert error.param == "x"


def test_keys_may_repeat_in_different_objects() -> None:
    assert parse(b'[{"a":1},{"a":{"a":2}}]') == [{"a": 1}, {"a": {"a": 2}}]


def test_colons_quotes_and_brackets_in_strings_are_text() -> None:
    value = {'\\"{[:,[{\\': 'b\\":', "\\\\": '"\\"', '""': "::,,[[{{"}
    assert parse(json.dumps(value).encode(), max_depth=1, max_elements=3) == value


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_depth_is_checked_before_parsing(pair: str) -> None:
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


def test_many_fractions_are_exact_too() -> None:
    halfway = "2.22507385850720113605740979670913197593481954635164564e-308"
    numbers = [
        halfway,
        "-0.0",
        "-0",
        "1E5",
        "1e-400",
        "0.1234567890123456",
        "1" * 64,
        "1e308",
    ] * 2500
    body = f'{{"a":[{",".join(numbers)}],"s":"\\u00e4\\ud83d\\ude00 1.5e3","t":true}}'.encode()
    value = parse(body)
    assert repr(value) == repr(json.loads(body))
    assert [type(each) for each in value["a"]] == [type(json.loads(each)) for each in numbers]
    for bad in ("1e999", "NaN", "-Infinity", "1e0309", '"\\ud800"', "01", "1.", ".5"):
        assert refusal(f"[{','.join(numbers)},{bad}]".encode()).status == 400, bad
    assert "twice" in refusal(f'[{",".join(numbers)},{{"a":1,"a":2}}]'.encode()).message


def test_reading_many_fractions_leaves_the_interpreter_to_others() -> None:
    number = b"2.22507385850720113605740979670913197593481954635164564e-308"
    body = b"[" + b",".join([number] * 90_000) + b"]"

    async def longest_step() -> float:
        """Return the largest part of the work that was done in one go."""
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(None, partial(parse, body, max_elements=100_000))
        begin = before = process_time()
        longest = 0.0
        while not reading.done():
            await asyncio.sleep(0.001)
            now = process_time()
            longest, before = max(longest, now - before), now
        assert len(await reading) == 90_000
        return longest / (before - begin)

    assert asyncio.run(longest_step()) < 0.5


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
def test_valid_json_is_read_as_by_the_standard_library(value: Any, ascii_only: bool) -> None:
    assert parse(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


#: Pieces with a meaning to readers of JSON, at least to some.
PIECES = [
    b"",
    *(bytes([each]) for each in range(0x21)),
    *(each.encode() for each in '[]{}:,"\\/+-.eE019aNtfn#\x7f\x85\xa0\u2028\ufeff'),
    *(rb"\u0000", rb"\ud800", rb"\udc00", rb"\ud83d\ude00", rb"\u00", b"\\'", b"null", b"NaN"),
    *(b"Infinity", b"1e5", b"1e999", b"1E-999", b"-0", b"01", b"/*", b"*/", b"//", b"'", b",]"),
    *(b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80"),
]


@st.composite
def damaged_texts(draw: st.DrawFn) -> bytes:
    """Strategy for a JSON text with a few pieces inserted, replaced or cut out."""
    text = draw(st.builds(json.dumps, JSON, ensure_ascii=st.booleans())).encode()
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(text)))
        cut = draw(st.sampled_from((0, 0, 1, 3)))
        text = text[:place] + draw(st.sampled_from(PIECES)) + text[place + cut :]
    return text


def standard_reading(text: bytes) -> Any:
    """Return the standard library's reading, except for what we refuse.

    Refused on purpose: text beyond RFC 8259, duplicate keys, halves of surrogate pairs, numbers
    that are infinite as floats or have more than 64 digits in a row, and a zero with an exponent
    beyond those of floats.

    Raises:
        ValueError: it is refused.
    """

    def constant(word: str) -> None:
        raise ValueError(word)

    def number(word: str) -> float:
        exponent = int(re.split("[eE]", f"{word}e0")[1])
        if abs(float(word)) == float("inf") or (float(word) == 0 and exponent > 308):
            raise ValueError(word)
        return float(word)

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a doubled key")
        return found

    value = json.loads(
        text.decode(), parse_constant=constant, parse_float=number, object_pairs_hook=members
    )
    json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError
    return value


@settings(max_examples=examples(500))
@given(text=damaged_texts())
def test_a_damaged_text_is_read_as_by_the_standard_library_or_refused(text: bytes) -> None:
    try:
        expected = standard_reading(text)
    except ValueError:
        refusal(text)
    else:
        assert parse(text) == expected
