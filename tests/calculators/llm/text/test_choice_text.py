"""The text of a choice, its stop strings, and its tokens' log-probabilities together."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.language.events import Content
from calculators.llm.answers.choice import Choice, ChoiceDelta, ScoredToken, StopStrings
from calculators.llm.detokenizer import TableDetokenizer
from tests.calculators.llm.text.streaming import lengths, split_at

#: A readable vocabulary: letters, halves of a character, one hidden token.
PIECES = [b"a", b"b", b"cd", b"\xe6", b"\xbc", b"\xa2", b"", b" e"]
HAN = [3, 4, 5]
HIDDEN = 6


def choice(*stops: str, include: bool = False, echoed: int = 0) -> Choice:
    stream = TableDetokenizer(PIECES, strips_space=False)
    return Choice(stream, StopStrings(stops, include=include), echoed=echoed)


def feed(text: Choice, parts: Sequence[Sequence[int]], *, scored: bool = True) -> list[ChoiceDelta]:
    """Return all deltas and the last one; token ``i``'s log-probability is ``-i``."""

    async def run() -> list[ChoiceDelta]:
        pieces: list[ChoiceDelta] = []
        for part in parts:
            scores = [-float(each) for each in part] if scored else ()
            pieces.append(await text.feed(part, scores))
            if text.is_stopped:
                return pieces
        return [*pieces, await text.finish()]

    return asyncio.run(run())


def text_in(piece: ChoiceDelta) -> str:
    texts = [event.text for event in piece.events if isinstance(event, Content)]
    assert len(texts) == len(piece.events)
    return "".join(texts)


def text_of(pieces: Sequence[ChoiceDelta]) -> str:
    return "".join(map(text_in, pieces))


def ids_of(piece: ChoiceDelta) -> list[int]:
    return [token.token_id for token in piece.tokens]


def test_a_token_is_shown_with_its_text() -> None:
    pieces = feed(choice(), [[0], [1, 2]])
    assert [(text_in(piece), ids_of(piece)) for piece in pieces] == [
        ("a", [0]),
        ("bcd", [1, 2]),
        ("", []),
    ]
    assert pieces[0].tokens == [ScoredToken(0, 0.0)]


def test_the_tokens_of_one_character_are_shown_together() -> None:
    pieces = feed(choice(), [[each] for each in HAN])
    assert [(text_in(piece), ids_of(piece)) for piece in pieces] == [
        ("", []),
        ("", []),
        ("漢", HAN),
        ("", []),
    ]


def test_an_unfinished_character_is_shown_at_the_end_with_its_tokens() -> None:
    pieces = feed(choice(), [[0, 3], [4]])
    assert text_of(pieces) == "a\ufffd"
    assert ids_of(pieces[-1]) == [3, 4]


def test_a_hidden_token_at_the_end_still_has_its_log_probability() -> None:
    pieces = feed(choice(), [[0], [HIDDEN]])
    assert [ids_of(piece) for piece in pieces] == [[0], [], [HIDDEN]]


def test_tokens_of_text_that_is_held_back_wait_for_it() -> None:
    pieces = feed(choice("bcdx"), [[0, 1], [2], [0]])
    assert [(text_in(piece), ids_of(piece)) for piece in pieces] == [
        ("a", [0]),
        ("", []),
        ("bcda", [1, 2, 0]),
        ("", []),
    ]


def test_tokens_of_a_stop_string_are_not_shown() -> None:
    text = choice("bcd")
    pieces = feed(text, [[0], [1], [2], [7]])
    assert text.is_stopped
    assert text_of(pieces) == "a"
    assert [ids_of(piece) for piece in pieces] == [[0], [], []]
    assert asyncio.run(text.finish()) == ChoiceDelta(())


def test_an_included_stop_string_has_its_tokens() -> None:
    pieces = feed(choice("bcd", include=True), [[0], [1], [2], [7]])
    assert text_of(pieces) == "abcd"
    assert [ids_of(piece) for piece in pieces] == [[0], [], [1, 2]]


def test_held_text_is_shown_at_the_end() -> None:
    pieces = feed(choice("bcdx"), [[0, 1, 2]], scored=False)
    assert [text_in(piece) for piece in pieces] == ["a", "bcd"]


@pytest.mark.parametrize("logprob", [1.0, math.nan, math.inf, -math.inf])
def test_invalid_log_probabilities_are_none(logprob: float) -> None:
    piece = asyncio.run(choice().feed([0], [logprob]))
    assert piece.tokens == [ScoredToken(0, None)]


def test_prompt_tokens_are_shown_and_not_counted() -> None:
    text = choice(echoed=3)
    pieces = feed(text, [[0, 1], [2, 0, 0]])
    assert text_of(pieces) == "abcdaa"
    assert [ids_of(piece) for piece in pieces] == [[0, 1], [2, 0, 0], []]
    assert text.completion_tokens == 2


def test_a_stop_string_in_the_prompt_does_not_count() -> None:
    text = choice("b", echoed=2)
    pieces = feed(text, [[0, 1, 0, 1, 0]])
    assert text_of(pieces) == "aba"
    assert text.is_stopped


tokens = st.lists(st.integers(0, len(PIECES) - 1), max_size=20)


@given(tokens, lengths, st.integers(0, 5), st.booleans(), st.sampled_from([(), ("ab",), ("b e",)]))
def test_the_result_does_not_depend_on_the_pieces(
    ids: list[int], cuts: list[int], echoed: int, include: bool, stops: tuple[str, ...]
) -> None:
    def run(parts: Sequence[Sequence[int]], scored: bool) -> tuple[str, list[int]]:
        pieces = feed(choice(*stops, include=include, echoed=echoed), parts, scored=scored)
        return text_of(pieces), [each for piece in pieces for each in ids_of(piece)]

    whole, shown = run([ids], True)
    assert run(split_at(ids, cuts), True) == (whole, shown)
    assert run(split_at(ids, cuts), False) == (whole, [])
    assert shown == ids[: len(shown)]
