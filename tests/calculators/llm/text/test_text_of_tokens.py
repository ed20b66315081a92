"""Text of tokens: what the tokenizer decodes, whatever the pieces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calculators.llm.detokenizer import Detokenizer, TableDetokenizer, WindowDetokenizer
from tests.calculators.llm.text.streaming import lengths, pieces_of, split_at, token_ids
from tests.calculators.llm.text.tokenizers_for_tests import (
    TABLE_KINDS,
    decode,
    encode,
    make_cleaning_tokenizer,
    table_of,
    tokenizer_of,
)
from tests.example_counts import examples

SENTENCES = [
    "Hello world, hello there. The quick  brown fox!",
    "Grüße, žluťoučký kůň, 你好，世界",  # noqa: RUF001
    "\n\n  emoji 👩‍👩‍👧‍👦 and \u0000 controls",
    "I do n't , no . She 's here ' s",
    " leading and trailing ",
]


def table_text(path: Path, *, skip: bool) -> Detokenizer:
    table = table_of(path)
    pieces = table.visible(table.special) if skip else table.pieces
    return TableDetokenizer(pieces, strips_space=table.strips_space)


def decoded_text(path: Path, *, skip: bool) -> Detokenizer:
    async def call(ids: Sequence[int]) -> str:
        return decode(path, ids, skip=skip)

    return WindowDetokenizer(call)


STREAMS = {"table": table_text, "decoded": decoded_text}


@pytest.mark.parametrize("path", TABLE_KINDS.values(), ids=TABLE_KINDS)
def test_a_table_describes_the_usual_kinds_of_tokenizers(path: Path) -> None:
    table = table_of(path)
    assert table.is_exact
    assert len(table.pieces) == len(tokenizer_of(path).get_vocab())


@pytest.mark.parametrize("skip", [True, False], ids=["special hidden", "special shown"])
@pytest.mark.parametrize("path", TABLE_KINDS.values(), ids=TABLE_KINDS)
@pytest.mark.parametrize("kind", STREAMS)
@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_pieces_join_to_the_tokenizers_decoding(
    kind: str, path: Path, skip: bool, data: st.DataObject
) -> None:
    ids = data.draw(token_ids(len(table_of(path).pieces)))
    parts = split_at(ids, data.draw(lengths))
    shown = pieces_of(STREAMS[kind](path, skip=skip), parts)
    assert "".join(shown) == decode(path, ids, skip=skip)


@pytest.mark.parametrize("path", TABLE_KINDS.values(), ids=TABLE_KINDS)
@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_the_text_so_far_is_a_prefix_of_the_full_text(path: Path, data: st.DataObject) -> None:
    ids = data.draw(token_ids(len(table_of(path).pieces)))
    full = decode(path, ids)
    shown = ""
    for number, piece in enumerate(pieces_of(table_text(path, skip=True), [[i] for i in ids])):
        shown += piece
        assert full.startswith(shown)
        so_far = decode(path, ids[: number + 1])
        # Everything that no further token can change is sent: at most one character is missing.
        assert so_far.rstrip("\ufffd").startswith(shown.rstrip("\ufffd"))
        assert len(so_far) - len(shown) <= 1


@pytest.mark.parametrize("text", SENTENCES)
@pytest.mark.parametrize("path", TABLE_KINDS.values(), ids=TABLE_KINDS)
@pytest.mark.parametrize("kind", STREAMS)
def test_sentences_are_decoded_token_by_token(kind: str, path: Path, text: str) -> None:
    ids = encode(path, text)
    shown = pieces_of(STREAMS[kind](path, skip=True), [[each] for each in ids])
    assert "".join(shown) == decode(path, ids)


def test_a_space_after_hidden_tokens_is_kept() -> None:
    path = TABLE_KINDS["SentencePiece"]
    word = encode(path, "hello")[-1]
    start = tokenizer_of(path).get_bos_token_id()
    ids = [word, *[start] * 20, *encode(path, "hello")]
    for kind in STREAMS:
        shown = pieces_of(STREAMS[kind](path, skip=True), [[each] for each in ids])
        assert "".join(shown) == decode(path, ids)


def test_tokens_beyond_the_tokenizers_vocabulary_have_no_text() -> None:
    path = TABLE_KINDS["byte-level BPE"]
    ids = encode(path, "Hello")
    size = len(table_of(path).pieces)
    shown = pieces_of(table_text(path, skip=True), [[*ids, size, size + 1000], [size], ids])
    assert "".join(shown) == decode(path, [*ids, *ids])


# A tokenizer that no table describes --------------------------------------------------------------


@pytest.fixture(scope="module")
def cleaning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cleaning_tokenizer(tmp_path_factory.mktemp("cleaning"))


def test_a_tokenizer_that_cleans_up_is_not_taken_for_a_table(cleaning: Path) -> None:
    assert decode(cleaning, encode(cleaning, "do n't .")) == "don't."
    assert not table_of(cleaning).is_exact


@pytest.mark.parametrize("text", SENTENCES)
def test_cleaned_up_text_is_never_taken_back(cleaning: Path, text: str) -> None:
    ids = encode(cleaning, text)
    full = decode(cleaning, ids)
    shown = ""
    for piece in pieces_of(decoded_text(cleaning, skip=True), [[each] for each in ids]):
        shown += piece
        assert full.startswith(shown)
    assert shown == full
