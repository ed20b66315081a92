"""Texts become passages of the size that is asked for, with the right lines."""

from __future__ import annotations

import re
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.language.retrieval.passages import Outline, Passage, PassageSize

SIZE = PassageSize(least=20, most=40, overlap=0.15)


def words(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))


def divided(text: str, size: PassageSize = SIZE, *, is_markdown: bool = True) -> list[Passage]:
    outline = Outline(text, is_markdown=is_markdown)
    return list(outline.passages([words(each) for each in outline.texts], size))


def sentence(number: int, count: int) -> str:
    return " ".join(f"w{number}x{place}" for place in range(count))


def test_a_short_text_is_one_passage() -> None:
    assert divided("\n\nHello\nworld\n\n") == [Passage(3, "", "Hello\nworld")]
    assert divided("") == divided(" \n\t\n") == []


def test_passages_end_where_paragraphs_end() -> None:
    text = "\n\n".join(sentence(number, 12) for number in range(6))
    found = divided(text, PassageSize(20, 40, 0))
    assert [(each.line, words(each.text)) for each in found] == [(1, 36), (7, 36)]
    assert found[0].text.endswith("w2x11")


def test_each_passage_but_the_first_repeats_the_end_of_the_one_before() -> None:
    text = "\n".join(sentence(number, 5) for number in range(30))
    found = divided(text)
    assert len(found) > 3
    lines = text.split("\n")
    for before, after in pairwise(found):
        repeated = set(before.text.split("\n")) & set(after.text.split("\n"))
        assert repeated == {lines[after.line - 1]}  # 5 of 40 words; two lines would be too many


def test_a_section_begins_a_passage_without_repetition() -> None:
    text = f"# A\n{sentence(1, 25)}\n## B\n{sentence(2, 25)}\n## C\n{sentence(3, 3)}\n"
    assert divided(text) == [
        Passage(1, "", f"# A\n{sentence(1, 25)}"),
        Passage(3, "A", f"## B\n{sentence(2, 25)}\n## C\n{sentence(3, 3)}"),
    ]


def test_passages_know_the_headings_above_them() -> None:
    text = f"# Serving\n\n## Streams\n\n{sentence(1, 30)}\n\n{sentence(2, 30)}\n\n# End\n\nbye\n"
    assert [(each.line, each.title) for each in divided(text, PassageSize(20, 40, 0))] == [
        (1, ""),
        (7, "Serving: Streams"),
    ]
    assert {each.title for each in divided(text, is_markdown=False)} == {""}


def test_a_heading_stays_with_its_text() -> None:
    text = f"{sentence(1, 18)}\n# Title\n{sentence(2, 30)}\n"
    for each in divided(text, PassageSize(30, 40, 0)):
        assert not each.text.endswith("Title")


def test_a_title_is_part_of_the_size() -> None:
    title = sentence(9, 15)
    text = f"# {title}\n" + "\n".join(sentence(number, 5) for number in range(40))
    for each in divided(text)[1:]:
        assert each.title == title
        assert words(each.title) + words(each.text) <= SIZE.most


def test_code_is_one_paragraph_and_has_no_headings() -> None:
    code = "```\n# no heading\n\na b c\n```"
    text = f"{sentence(1, 18)}\n\n{code}\n\n{sentence(2, 30)}"
    found = divided(text)
    assert found[0].text == f"{sentence(1, 18)}\n\n{code}"
    assert found[1].title == ""


def test_a_long_line_is_divided_at_its_sentences() -> None:
    text = " ".join(f"{sentence(number, 8)}." for number in range(30))
    found = divided(text, PassageSize(20, 40, 0))
    assert "".join(each.text for each in found) == text
    assert all(each.text.rstrip().endswith(".") and each.line == 1 for each in found)


def test_a_model_that_reads_little_gets_small_passages() -> None:
    assert PassageSize().within(10_000) == PassageSize(200, 400)
    assert PassageSize().within(254) == PassageSize(127, 254)
    assert PassageSize().within(0) == PassageSize(1, 1)


@pytest.mark.parametrize("text", ["x" * 1000, "字" * 1000, "a.b." * 400, "。" * 500])
def test_text_without_spaces_is_divided(text: str) -> None:
    outline = Outline(text, is_markdown=True)
    found = list(outline.passages([len(each) for each in outline.texts], PassageSize(100, 200, 0)))
    assert "".join(each.text for each in found) == text
    assert all(len(each.text) <= 200 for each in found)


LINES = st.lists(
    st.sampled_from(["", "", "# H", "## H2 h", "```", "a b c d e f", "word " * 50, "- x", "  y"]),
    max_size=60,
)


@given(LINES, st.integers(1, 60), st.integers(1, 60), st.sampled_from([0.0, 0.15, 0.9]))
def test_every_line_is_in_a_passage(
    lines: list[str], least: int, more: int, overlap: float
) -> None:
    # Each line ends with a number, and so does each word, so that it is found in the passages.
    numbers = count()
    numbered = [f"{line} n{next(numbers)}" if line else "" for line in lines]
    text = re.sub("word", lambda _: f"n{next(numbers)}", "\n".join(numbered))
    found = divided(text, PassageSize(least, least + more, overlap))
    assert all(each.text in text for each in found)
    # A passage begins behind the beginning of the one before it, and not behind its end.
    places = [text.index(each.text) for each in found]
    assert places == sorted(set(places))
    for each, (place, following) in zip(found, pairwise(places), strict=False):
        assert not text[place + len(each.text) : following].strip()
    shown = {number for each in found for number in re.findall(r"\bn\d+", each.text)}
    assert shown == set(re.findall(r"\bn\d+", text))
    assert [each.line for each in found] == [text.count("\n", 0, place) + 1 for place in places]
