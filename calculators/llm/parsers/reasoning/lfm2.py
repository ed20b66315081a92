"""Reasoning as LFM2.5 writes it: ``<think>...</think>``."""

from __future__ import annotations

from typing import Final

from calculators.llm.parsers.reasoning.between_tags import ReasoningBetweenTags


class Lfm2ReasoningParser(ReasoningBetweenTags):
    """White space and line ends around the tags stay in the reasoning and the content."""

    start_tags = ("<think>",)
    end_tag = "</think>"
    special_tokens = frozenset((*start_tags, end_tag))


PARSER: Final = Lfm2ReasoningParser
