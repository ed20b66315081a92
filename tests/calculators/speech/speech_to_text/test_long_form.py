"""The windows of a part of a long sound: which of them count, and where the next part begins."""

from __future__ import annotations

from collections.abc import Sequence

import openvino_genai as genai
import pytest

from calculators.speech.speech_to_text.messages import WINDOW, Recognize
from calculators.speech.speech_to_text.speech_model import Chunk, Heard, LongForm

SECOND = 16_000


class Part:
    """A part whose windows have these texts; the tokens of each are its characters."""

    def __init__(
        self, windows: int, *, is_last: bool = False, seconds: int = 0, words: bool = False
    ) -> None:
        self.told: list[str] = []
        self.others_wait = False
        self.is_wanted = True
        question = Recognize(1, "", False, "", "", 0.0, True, words, windows, is_last)
        samples = seconds * SECOND or windows * WINDOW
        self.form = LongForm(
            lambda tokens: "".join(map(chr, tokens)),
            question,
            samples,
            self._take,
            lambda: self.others_wait,
        )

    def _take(self, text: str) -> bool:
        self.told.append(text)
        return self.is_wanted

    def hear(self, *texts: str) -> list[bool]:
        """Hear windows; return which of them let another begin."""
        running = genai.StreamingStatus.RUNNING
        return [self.form.write([ord(each) for each in text]) == running for text in texts]

    def heard(self, *chunks: Chunk) -> Heard:
        return self.form.heard(chunks)


def test_a_window_whose_text_goes_on_ends_at_its_last_complete_segment() -> None:
    part = Part(2)
    assert part.hear(" a b", " c d") == [True, False]
    heard = part.heard((0, 10, " a"), (10, 24.5, " b"), (24.5, 30, " c"), (30, 44, " d"))
    # The second window ends at 44 s, or behind 54.5 s: it is heard again.
    assert heard == Heard(1, 2, round(24.5 * SECOND), "")
    assert part.told == ["", " a b"]


def test_a_window_with_nothing_behind_its_last_segment_counts_as_a_whole() -> None:
    part = Part(3)
    part.hear(" a", " b", " c")
    heard = part.heard((0, 10, " a"), (30.5, 60, " b"), (60, 89, " c"))
    assert heard == Heard(2, 2, 60 * SECOND, "")


@pytest.mark.parametrize("end", [-1.0, 60.0])
def test_a_part_ends_without_hearing_a_window_twice_where_its_end_is_known(end: float) -> None:
    part = Part(2)
    part.hear(" a", " b")
    assert part.heard((0, -1, " a"), (30, end, " b")) == Heard(2, 2, 60 * SECOND, " b")


def test_words_of_the_window_at_which_the_library_was_stopped_are_not_known() -> None:
    part = Part(2, words=True)
    part.hear(" a", " b")
    assert part.heard((0, -1, " a"), (30, -1, " b")) == Heard(1, 1, 30 * SECOND, "")


def test_a_part_stops_for_others_after_its_second_window() -> None:
    part = Part(6)
    part.others_wait = True
    assert part.hear(" a", " b") == [True, False]
    assert part.heard((0, 20, " a"), (20, 45, " b")).samples == 20 * SECOND


def test_the_rest_of_a_sound_is_heard_to_its_end() -> None:
    part = Part(6, is_last=True, seconds=80)
    assert part.hear(" a", " b", " c") == [True, True, True]
    assert part.heard((0, 30, " a"), (30, 60, " b"), (60, -1, " c")) == Heard(
        3, 3, 80 * SECOND, " c"
    )
    assert part.told == ["", " a", " b"]


@pytest.mark.parametrize(("seconds", "stops"), [(100, True), (80, False)])
def test_a_rest_of_one_window_is_not_left_alone(seconds: int, stops: bool) -> None:
    part = Part(6, is_last=True, seconds=seconds)
    part.others_wait = True
    assert part.hear(" a", " b") == [True, not stops]


def test_short_windows_at_the_end_do_not_keep_others_waiting() -> None:
    part = Part(6, is_last=True, seconds=60)
    part.others_wait = True
    assert part.hear("a", "b", "c", "d", "e").count(False) >= 1


def test_a_sound_that_nobody_wants_stops_after_a_window() -> None:
    part = Part(6)
    part.is_wanted = False
    assert part.hear(" a") == [False]
    assert part.form.is_cancelled


def test_an_exception_of_a_callback_ends_the_part() -> None:
    part = Part(6)
    part.form._decode = lambda tokens: str(1 / 0)
    assert part.hear(" a") == [False]
    assert isinstance(part.form.failure, ZeroDivisionError)


def test_windows_without_text_are_windows() -> None:
    part = Part(3)
    part.hear("", " b", "")
    chunks: Sequence[Chunk] = [(0, -1, ""), (30, 50, " b"), (60, -1, "")]
    assert part.heard(*chunks) == Heard(3, 3, 90 * SECOND, "")
