"""Interpreter of automata."""

from __future__ import annotations

from calculators.llm.grammars.automaton import Automaton


def accepts(automaton: Automaton, text: str) -> bool:
    """Return True if the automaton accepts the text."""
    state = 0
    for letter in text:
        for ranges, goal in automaton.moves[state]:
            if any(low <= ord(letter) <= high for low, high in ranges):
                state = goal
                break
        else:
            return False
    return state in automaton.final
