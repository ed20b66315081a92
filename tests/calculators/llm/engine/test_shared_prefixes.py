"""The estimate of the part of prompts that the engine has in its cache."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from calculators.llm.engine.engine import Requests, SharedPrefixes
from calculators.llm.engine.messages import Add, NewTokens, Step
from calculators.llm.engine.settings import GenerationSettings


def ids(tokens: Iterable[int]) -> bytes:
    return array("q", tokens).tobytes()


def test_whole_blocks_of_an_earlier_prompt_are_shared() -> None:
    prefixes = SharedPrefixes(1000)
    assert prefixes.shared(ids(range(100))) == 0
    prefixes.note(ids(range(100)))
    assert prefixes.shared(ids(range(100))) == 96
    assert prefixes.shared(ids(range(90))) == 64
    assert prefixes.shared(ids([*range(70), 1, 2, 3])) == 64
    assert prefixes.shared(ids([*range(31), 0, *range(32, 100)])) == 0
    # The same block after others is another one.
    assert prefixes.shared(ids([*range(32, 64), *range(32, 64)])) == 0


def test_the_last_token_is_always_computed() -> None:
    prefixes = SharedPrefixes(1000)
    prefixes.note(ids(range(64)))
    assert prefixes.shared(ids(range(64))) == 63
    assert prefixes.shared(b"") == 0


def test_what_was_not_used_for_long_leaves_with_its_end_first() -> None:
    prefixes = SharedPrefixes(4 * 32)
    prefixes.note(ids(range(96)))
    prefixes.note(ids(range(1000, 1064)))
    assert prefixes.shared(ids(range(97))) == 64
    assert prefixes.shared(ids(range(1000, 1065))) == 64
    prefixes.forget()
    assert prefixes.shared(ids(range(97))) == 0


def test_a_next_turn_shares_prompt_and_answer_of_the_turn_before() -> None:
    requests = Requests(lambda message: None)
    requests.prefixes = SharedPrefixes(1000)
    settings = GenerationSettings()
    first = requests.submit([Add(0, ids(range(40)), settings)])
    # Not computed yet, so that a prompt of the same moment finds nothing.
    assert requests.submit([Add(0, ids(range(40)), settings)]).shared_tokens == 0
    requests.take(Step([NewTokens(0, 0, [40])]))
    assert requests.submit([Add(0, ids(range(41)), settings)]).shared_tokens == 32
    requests.take(Step([NewTokens(0, 0, list(range(41, 70)), [], "length")]))
    assert requests.submit([Add(0, ids(range(90)), settings)]).shared_tokens == 64
    assert first.shared_tokens == 0
