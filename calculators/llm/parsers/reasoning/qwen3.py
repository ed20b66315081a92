"""Reasoning as Qwen3 models and many others write it: ``<think>...</think>``."""

from __future__ import annotations

from typing import Final

from calculators.llm.parsers.reasoning.between_tags import ThinkParser

PARSER: Final = ThinkParser
