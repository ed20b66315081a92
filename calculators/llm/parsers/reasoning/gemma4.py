"""Reasoning as Gemma 4 writes it: ``<|channel>thought ...<channel|>``."""

from __future__ import annotations

from calculators.llm.parsers.reasoning.between_tags import ReasoningBetweenTags


class Gemma4ReasoningParser(ReasoningBetweenTags):
    """Reads the channel ``thought``. The line end after its name belongs to the tag."""

    start_tags = ("<|channel>thought\n", "<|channel>thought")
    end_tag = "<channel|>"
    special_tokens = frozenset(("<|channel>", "<channel|>"))
