"""Decoding of bytes as openvino-tokenizers decodes them, as soon as they are certain."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calculators.llm.detokenizer import decode_all, decode_certain
from tests.calculators.llm.text.tokenizers_for_tests import SENTENCEPIECE, decode, tokenizer_of
from tests.example_counts import examples

_VOCABULARY = tokenizer_of(SENTENCEPIECE).get_vocab()
_BYTES = [_VOCABULARY[f"<0x{byte:02X}>".encode()] for byte in range(256)]

#: Many beginnings and continuations of characters, few other bytes.
hostile = st.lists(
    st.one_of(
        st.sampled_from([0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xF7, 0xF8, 0xFF, 0xC0]),
        st.integers(0x80, 0xBF),
        st.integers(0x21, 0xFF),
    ),
    max_size=12,
).map(bytes)


@settings(max_examples=examples(200), deadline=None)
@given(hostile)
@example(b"\xed\xa0\x80")
@example(b"\xe2\x82")
@example(b"\xf4\x90\x80\x80")
@example(b"\xf0\x9f\x92")
def test_bytes_are_decoded_as_the_tokenizer_decodes_them(data: bytes) -> None:
    assert decode_all(data) == decode(SENTENCEPIECE, [_BYTES[byte] for byte in data])


@settings(max_examples=examples(200), deadline=None)
@given(st.one_of(hostile, st.text(max_size=8).map(str.encode)), st.data())
def test_certain_text_does_not_depend_on_where_the_bytes_are_cut(
    data: bytes, draw: st.DataObject
) -> None:
    cut = draw.draw(st.integers(0, len(data)))
    first, rest = decode_certain(data[:cut])
    second, left = decode_certain(rest + data[cut:])
    assert (first + second, left) == decode_certain(data)
    assert len(left) < 4


@pytest.mark.parametrize("text", ["é", "漢", "👍"])
def test_a_character_is_held_until_its_last_byte(text: str) -> None:
    data = text.encode()
    for length in range(1, len(data)):
        assert decode_certain(data[:length]) == ("", data[:length])
    assert decode_certain(data) == (text, b"")
