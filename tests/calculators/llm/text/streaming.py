"""Feeding of a text stream in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import strategies as st

from calculators.llm.detokenizer import Detokenizer


def pieces_of(stream: Detokenizer, splits: Sequence[Sequence[int]]) -> list[str]:
    """Return the text of each group of tokens, and the text of the end."""

    async def feed() -> list[str]:
        shown = [await stream.feed(part) for part in splits]
        return [*shown, await stream.finish()]

    return asyncio.run(feed())


def split_at(ids: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Return groups of these lengths, and the rest; a length of 0 is a group without tokens."""
    parts: list[list[int]] = []
    place = 0
    for length in lengths:
        parts.append(list(ids[place : place + length]))
        place += length
    parts.append(list(ids[place:]))
    return parts


def token_ids(size: int, *, most: int = 40) -> st.SearchStrategy[list[int]]:
    """Strategy for sequences rich in the first ids, which are special and byte tokens."""
    first = st.integers(0, min(size, 300) - 1)
    return st.lists(st.one_of(st.integers(0, size - 1), first), max_size=most)


lengths = st.lists(st.integers(0, 6), max_size=12)
