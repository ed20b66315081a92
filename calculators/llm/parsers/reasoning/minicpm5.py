"""Reasoning as MiniCPM 5 writes it: ``<think>...</think>``."""

from __future__ import annotations

from typing import Final

from calculators.llm.parsers.reasoning.between_tags import ReasoningBetweenTags


class MiniCpm5ReasoningParser(ReasoningBetweenTags):
    """Without ``<think>`` at the end of the prompt or in the answer nothing is reasoning.

    Not even where ``</think>`` follows: what was heard as content cannot be taken back.
    """

    start_tags = ("<think>",)
    end_tag = "</think>"
    special_tokens = frozenset((*start_tags, end_tag))


PARSER: Final = MiniCpm5ReasoningParser
