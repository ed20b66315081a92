# ruff: noqa: RUF001 - marks of all scripts, some of which look alike
"""Sentences of texts: their ends in several scripts, and parts of long ones."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calculators.speech.text_to_speech.sentences import (
    MAX_SENTENCE,
    SentenceSplitter,
    has_words,
    split_sentences,
    split_to_limit,
    spoken_text,
)

#: Texts, with a bar between their sentences.
TEXTS = (
    "Hello world.| How are you?| I'm fine!",
    "Dr. Smith paid $3.50 to Mr. J. R. Jones in the U.S. Army.| He left at 5 p.m.| Then it rained.",
    'He said "Stop!" and left.| "Really?" she asked.| (Yes.)| Done...',
    "Wait... what?| No. 5 is alive.| No.| That is wrong.",
    "He has a Ph.D. in physics.| Good.",
    "See fig. 3, vol. 2, e.g. the top.| Really?!| Yes.",
    "Is it 3.14 or 1,000.50?| See https://example.com/a.b?c=d.| Write to me@example.com.| Ok",
    "1. First item.| 2. Second item.",
    "Steps:|\n1. Do it.|\n2. Stop.\n",
    "A list:|\n- one|\n- two|\n\nA paragraph without a mark|\n\nThe end",
    "A wrapped\nline here.| Next one",
    "z.B. das hier, d.h. dies usw.| So ist es bzw. war es.",
    "¿Qué tal?| ¡Muy bien!| Gracias.",
    "今日は。|元気ですか？|「はい。」|と言った。",
    "你好！|你在做什么？|我很好。",
    "यह है।| वह था।",
    "مرحبا.| كيف حالك؟| جيد",
    "Բարեւ։| Լավ",
    "ሰላም።| እሺ።",
    "No end at all",
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_sentences_end_where_a_reader_would_end_them(text: str, size: int) -> None:
    wanted = [sentence.strip() for sentence in text.split("|")]
    text = text.replace("|", "")
    splitter = SentenceSplitter()
    found: list[str] = []
    for begin in range(0, len(text), size):
        found += splitter.add(text[begin : begin + size])
    assert [*found, *splitter.finish()] == wanted


def test_a_sentence_is_complete_as_soon_as_the_next_one_begins() -> None:
    splitter = SentenceSplitter()
    assert list(splitter.add("Hello there. ")) == []
    assert list(splitter.add("H")) == ["Hello there."]
    assert list(splitter.add("ow are you?\n\n")) == ["How are you?"]
    assert list(splitter.finish()) == []


def test_a_splitter_begins_anew_after_the_end_of_a_text() -> None:
    splitter = SentenceSplitter()
    assert [*splitter.add("One"), *splitter.finish()] == ["One"]
    assert [*splitter.add("Two. T"), *splitter.finish()] == ["Two.", "T"]


@pytest.mark.parametrize(
    "text", ["a" * 100_000, "word " * 20_000, "Mr. " * 20_000, "! (" * 20_000, "\u0301" * 60_000]
)
def test_texts_without_ends_are_cut(text: str) -> None:
    found = list(split_sentences(text))
    assert max(map(len, found)) <= MAX_SENTENCE
    assert "".join(found).replace(" ", "") == text.replace(" ", "")


def test_long_sentences_are_cut_at_pauses() -> None:
    text = "The fox, which was 1,000 years old, jumped; at 12:30 it slept under a tree"
    assert split_to_limit(text, 45) == [
        "The fox, which was 1,000 years old, jumped;",
        "at 12:30 it slept under a tree",
    ]
    assert split_to_limit(text, 25) == [
        "The fox, which was 1,000",
        "years old, jumped;",
        "at 12:30 it slept under a",
        "tree",
    ]
    assert split_to_limit("x" * 50, 20) == ["x" * 20, "x" * 20, "x" * 10]


def test_letters_count_as_the_tokenizer_reads_them() -> None:
    # One letter that Unicode's NFKC makes 18.
    assert split_to_limit("ﷺ" * 3, 20) == ["ﷺ"] * 3


@settings(deadline=None)
@given(st.text(max_size=200), st.integers(20, 60), st.integers(1, 20))
def test_nothing_of_a_text_is_lost(text: str, limit: int, size: int) -> None:
    whole = list(split_sentences(text))
    splitter = SentenceSplitter()
    found: list[str] = []
    for begin in range(0, len(text), size):
        found += splitter.add(text[begin : begin + size])
    assert [*found, *splitter.finish()] == whole
    pieces = [piece for sentence in whole for piece in split_to_limit(sentence, limit)]
    assert "".join("".join(pieces).split()) == "".join(text.split())
    for piece in pieces:
        assert piece == piece.strip()
        assert len(unicodedata.normalize("NFKC", piece)) <= limit or len(piece) == 1


@pytest.mark.parametrize(
    ("text", "has"), [("", False), (" .,!?\n", False), ("…—", False), ("a", True), ("5", True),
                      ("€", True), ("あ", True), ("🙂", True)]
)  # fmt: skip
def test_only_letters_digits_and_symbols_are_spoken(text: str, has: bool) -> None:
    assert has_words(text) is has


def test_control_characters_are_not_spoken() -> None:
    assert spoken_text("a\0b\u200bc\ud800d") == "a b c d"
    assert spoken_text("naïve 日本語 🙂") == "naïve 日本語 🙂"
