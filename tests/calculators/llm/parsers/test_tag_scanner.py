"""`TagScanner`: text up to the next of some tags."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.llm.parsers.parser import Tags, TagScanner


def split(chunks: Iterable[str], tags: Tags) -> list[str]:
    """Return texts and tags in turns: the last is text."""
    scanner, parts = TagScanner(), [""]

    def take() -> None:
        while not scanner.is_empty:
            text, tag = scanner.take(tags)
            parts[-1] += text
            if tag is None:
                break
            parts.extend((tag, ""))

    for chunk in chunks:
        scanner.feed(chunk)
        take()
    scanner.finish()
    take()
    return parts


@pytest.mark.parametrize(
    ("tags", "text", "parts"),
    [
        (("<a>",), "", [""]),
        (("<a>",), "no tag < a> here", ["no tag < a> here"]),
        (("<a>",), "x<a>y<a>", ["x", "<a>", "y", "<a>", ""]),
        (("<a>",), "<<a>", ["<", "<a>", ""]),
        (("<a>", "</a>"), "<a>x</a><a", ["", "<a>", "x", "</a>", "<a"]),
        (("aab",), "aaab aa", ["a", "aab", " aa"]),
        # The longer of two that begin at one place, and the earlier of two that overlap.
        (("ab", "abc"), "abab-abc", ["", "ab", "", "ab", "-", "abc", ""]),
        (("abcd", "bc"), "abcd abce", ["", "abcd", " a", "bc", "e"]),
        (("ü—",), "xü—y", ["x", "ü—", "y"]),
    ],
)
def test_text_is_split_at_tags(tags: tuple[str, ...], text: str, parts: list[str]) -> None:
    assert split([text], Tags(*tags)) == parts
    assert split(text, Tags(*tags)) == parts


@given(
    st.lists(st.text("ab<", min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.text("ab<")),
)
def test_the_result_does_not_depend_on_where_the_text_is_cut(
    tags: list[str], chunks: list[str]
) -> None:
    found = split(chunks, Tags(*tags))
    assert found == split(["".join(chunks)], Tags(*tags))
    assert "".join(found) == "".join(chunks)


def test_no_more_is_held_back_than_may_become_a_tag() -> None:
    scanner = TagScanner()
    scanner.feed("some text <thi")
    assert scanner.take(Tags("<think>")) == ("some text ", None)
    scanner.feed("s")
    assert scanner.take(Tags("<think>")) == ("<this", None)


@pytest.mark.parametrize("tags", [(), ("",), ("<a>", "")])
def test_invalid_tags_are_refused(tags: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="tags have to be strings"):
        Tags(*tags)
