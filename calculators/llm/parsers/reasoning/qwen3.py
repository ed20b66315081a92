"""Reasoning as Qwen3 models and many others write it: ``<think>...</think>``."""

from __future__ import annotations

from calculators.llm.parsers.reasoning.between_tags import ReasoningBetweenTags


class Qwen3ReasoningParser(ReasoningBetweenTags):
    """White space and line ends around the tags stay in the reasoning and the content."""

    start_tags = ("<think>",)
    end_tag = "</think>"
    special_tokens = frozenset(("<think>", "</think>"))


PARSER = Qwen3ReasoningParser
