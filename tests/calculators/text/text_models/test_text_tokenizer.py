"""Tokenizers of encoder models: special tokens, truncation, pairs, and both libraries alike."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from calculators.text.text_models.messages import EncoderLoad
from calculators.text.text_models.text_tokenizer import InputError, TextTokenizer, TextTokens
from calculators.text.text_models.tokenizer_files import open_tokenizer
from tests.calculators.text.text_models.word_tokenizer import (
    CLS,
    SEP,
    VOCABULARY,
    ids,
    write_tokenizer,
)
from tests.support.checkout import ROOT

DEMO = ROOT / "examples" / "models" / "demo"
TEXTS = ["the cat sat on the mat", "a dog", "", "nothing known", "the " * 30]


def opened(directory: Path, max_tokens: int = 8) -> TextTokenizer:
    return open_tokenizer(EncoderLoad(str(directory), 0, "CPU", {}, max_tokens, {}))


@pytest.fixture
def tokenizer(tmp_path: Path) -> TextTokenizer:
    write_tokenizer(tmp_path)
    return opened(tmp_path)


def lists(sequences: list[TextTokens]) -> list[list[int]]:
    return [each.ids.tolist() for each in sequences]


def test_special_tokens_are_added_and_nothing_is_cut_or_padded(tokenizer: TextTokenizer) -> None:
    assert lists(tokenizer.encode(TEXTS)) == [[CLS, *ids(text), SEP] for text in TEXTS]
    assert lists(tokenizer.encode(TEXTS, adds_special=False)) == [ids(text) for text in TEXTS]
    assert tokenizer.lengths(TEXTS) == [len(ids(text)) for text in TEXTS]
    assert all(each.types is None for each in tokenizer.encode(TEXTS))


@pytest.mark.parametrize("most", [2, 3, 5, 8])
def test_truncation_keeps_the_special_tokens(tokenizer: TextTokenizer, most: int) -> None:
    for text, cut in zip(TEXTS, lists(tokenizer.encode_cut(TEXTS, most=most)), strict=True):
        assert cut == [CLS, *ids(text)[: most - 2], SEP]
    for text, cut in zip(
        TEXTS, lists(tokenizer.encode_cut(TEXTS, most=most, side="left")), strict=True
    ):
        kept = ids(text)
        assert cut == [CLS, *kept[max(0, len(kept) - most + 2) :], SEP]
    (short,) = tokenizer.encode_cut(["the cat sat"], most=1)
    assert len(short.ids) == 1


def test_pairs_have_the_segments_of_the_template(tokenizer: TextTokenizer) -> None:
    ((pair,),) = tokenizer.encode_pairs("a dog", ["the cat"])
    assert pair.ids.tolist() == [CLS, *ids("a dog"), SEP, *ids("the cat"), SEP]
    assert pair.types is not None
    assert pair.types.tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_long_seconds_are_split_into_chunks_or_cut(tokenizer: TextTokenizer) -> None:
    long = "the cat sat on a mat"
    chunks, whole = tokenizer.encode_pairs("dog ran", [long, "cat"], chunks=True)
    begin = [CLS, *ids("dog ran"), SEP]
    assert lists(chunks) == [
        [*begin, *ids("the cat sat"), SEP],
        [*begin, *ids("on a mat"), SEP],
    ]
    assert lists(whole) == [[*begin, *ids("cat"), SEP]]
    ((cut,),) = tokenizer.encode_pairs("dog ran", [long])
    assert cut.ids.tolist() == [*begin, *ids("the cat sat"), SEP]
    (short,) = tokenizer.encode_pairs("dog ran", [long], seconds_most=4, chunks=True)
    assert lists(short) == [[*begin, *ids("the cat sat"), SEP], [*begin, *ids("on"), SEP]]
    (first,) = tokenizer.encode_pairs("dog ran to house", [long], first_most=1, chunks=True)
    assert lists(first)[0] == [CLS, *ids("dog"), SEP, *ids("the cat sat on"), SEP]


def test_a_first_text_that_leaves_no_room_is_refused(tokenizer: TextTokenizer) -> None:
    with pytest.raises(InputError, match="has 5 tokens, which leaves no room"):
        tokenizer.encode_pairs("the cat sat on the", ["mat"])


def test_the_vocabulary_is_the_models(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    assert opened(tmp_path).vocabulary == len(VOCABULARY)
    (tmp_path / "config.json").write_text('{"vocab_size": 64, "pad_token_id": 3}')
    tokenizer = opened(tmp_path)
    assert (tokenizer.vocabulary, tokenizer.pad) == (64, 3)
    assert tokenizer.id_of("yes") == VOCABULARY["yes"]
    assert tokenizer.id_of("nowhere") is None


def test_offsets_and_texts_of_tokens(tokenizer: TextTokenizer) -> None:
    assert tokenizer.offsets("a dog") == [(0, 0), (0, 1), (2, 5), (0, 0)]
    assert tokenizer.decode(ids("a dog")) == "a dog"
    with_special = [CLS, *ids("a dog"), SEP]
    assert tokenizer.decode(with_special, skips_special=False) == "[CLS] a dog [SEP]"


def corpus() -> list[str]:
    """Return texts of many kinds."""
    pages = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    return [*filter(str.strip, pages[:80]), "", " ", "Grüße, 世界! 🎉", "tab\tand\nline", "A" * 500]


def test_both_libraries_give_the_same_tokens(tmp_path: Path) -> None:
    for file in DEMO.glob("*token*"):
        if file.name != "tokenizer.json":
            shutil.copy(file, tmp_path)
    ours, theirs = opened(DEMO), opened(tmp_path)
    assert type(ours) is not type(theirs)
    texts = corpus()
    assert lists(ours.encode(texts)) == lists(theirs.encode(texts))
    assert lists(ours.encode_cut(texts)) == lists(theirs.encode_cut(texts))
    left: dict[str, Any] = {"side": "left", "most": 5}
    assert lists(ours.encode_cut(texts, **left)) == lists(theirs.encode_cut(texts, **left))
    sample = ours.encode(["Hello there"])[0].ids.tolist()
    assert ours.decode(sample) == theirs.decode(sample)


def test_pairs_need_a_tokenizer_json(tmp_path: Path) -> None:
    for file in DEMO.glob("openvino_tokenizer.*"):
        shutil.copy(file, tmp_path)
    with pytest.raises(InputError, match=r"has no tokenizer\.json"):
        opened(tmp_path).encode_pairs("a", ["b"])
