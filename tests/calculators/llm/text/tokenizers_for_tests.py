"""Real tokenizers of each kind, and their tables."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import openvino_genai as genai

from calculators.llm.detokenizer import TokenTable
from calculators.llm.prompt.builder import PromptBuilder
from tests.calculators.llm.demo_model import DEMO

FOLDER = Path(__file__).parent / "tokenizers"
SENTENCEPIECE = FOLDER / "sentencepiece"

#: Kinds of tokenizers that a table describes.
TABLE_KINDS = {"byte-level BPE": DEMO, "SentencePiece": SENTENCEPIECE}


@cache
def tokenizer_of(path: Path) -> Any:
    return genai.Tokenizer(str(path))


@cache
def table_of(path: Path) -> TokenTable:
    return PromptBuilder(str(path)).ready().tokens


def make_cleaning_tokenizer(folder: Path) -> Path:
    """Make a tokenizer that no table describes: it cleans up the text that it has decoded."""
    for part in (SENTENCEPIECE, FOLDER / "cleaning_detokenizer"):
        for file in part.iterdir():
            shutil.copy(file, folder)
    return folder


def decode(path: Path, ids: Sequence[int], *, skip: bool = True) -> str:
    text: str = tokenizer_of(path).decode(list(ids), skip_special_tokens=skip)
    return text


def encode(path: Path, text: str) -> list[int]:
    ids: list[int] = tokenizer_of(path).encode(text).input_ids.data[0].tolist()
    return ids
