"""Windows over long texts."""

from __future__ import annotations

import itertools

import pytest

from calculators.text.text_classification.encoding import window_starts


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 100, 4097])
@pytest.mark.parametrize("room", [1, 2, 8, 64])
def test_windows_cover_a_text_and_have_one_size(length: int, room: int) -> None:
    starts = window_starts(length, room)
    covered = {token for start in starts for token in range(start, min(start + room, length))}
    assert covered == set(range(length))
    if length > room:
        assert starts[-1] + room == length
        assert starts == sorted(set(starts))
    else:
        assert starts == [0]


def test_neighbours_share_tokens() -> None:
    starts = window_starts(1000, 64)
    assert all(later - earlier <= 56 for earlier, later in itertools.pairwise(starts))
