"""The model's own byte-level BPE tokenizer."""

import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from tokenizers import (  # type: ignore[import-untyped]
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from .conversation import END_OF_TEXT, TEMPLATE, TURN_END, TURN_START
from .mixture import document

VOCABULARY = 2560
UNSPACED = 1500  # of these are tokens that do not begin with a space
CONTEXT = 2048
MARKS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
SPACE = "Ġ"  # how byte-level BPE writes a space
CONTRACTIONS = "'(?:s|t|re|ve|m|ll|d)"
WITHOUT_SPACES = CONTRACTIONS + r"|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+|\s"
PIECES = CONTRACTIONS + r"| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+(?!\S)|\s+"


def train_tokenizer(seed: int, documents: int = 20_000) -> PreTrainedTokenizerFast:
    """Train a tokenizer in which a word has the same tokens with and without a space before it.

    A small model learns to copy much faster that way. So the merges are learned without spaces, and
    then each frequent token X gets a twin " X" by a merge that comes after all others.
    """
    rng = random.Random(f"tokenizer {seed}")
    marks = (END_OF_TEXT, TURN_START, TURN_END, *MARKS)
    texts = [_without(document(rng), marks) for _ in range(documents)]
    first = Tokenizer(models.BPE())
    first.pre_tokenizer = _splitting(WITHOUT_SPACES)
    trainer = trainers.BpeTrainer(
        vocab_size=UNSPACED,
        special_tokens=[AddedToken(text, special=True) for text in marks[:3]],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=False,
    )
    first.train_from_iterator(texts, trainer)
    description = json.loads(first.to_str())
    vocabulary, merges = description["model"]["vocab"], description["model"]["merges"]
    for token in _after_spaces(first, texts)[: VOCABULARY - len(MARKS) - len(vocabulary)]:
        vocabulary[SPACE + token] = len(vocabulary)
        merges.append([SPACE, token])
    tokenizer = Tokenizer.from_str(json.dumps(description))
    tokenizer.pre_tokenizer = _splitting(PIECES)
    tokenizer.decoder = decoders.ByteLevel()
    # Ordinary tokens, as in Qwen3, because a server has to find them in the text.
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKS])
    made = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[TURN_START, TURN_END],
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    made.chat_template = TEMPLATE.read_text(encoding="utf-8")
    return made


def _splitting(pattern: str) -> Any:
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([split, bytes_only])


def _after_spaces(tokenizer: Tokenizer, texts: list[str]) -> list[str]:
    """Return tokens that follow a space, the most frequent first."""
    counts: Counter[str] = Counter()
    for encoding in tokenizer.encode_batch(texts):
        counts.update(b for a, b in pairwise(encoding.tokens) if a == SPACE)
    return [
        token
        for token, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if token[0] not in (SPACE, "Ċ")
    ]


def twins(tokenizer: PreTrainedTokenizerFast) -> list[tuple[int, int]]:
    """Return the ids of (X, " X") for every X that has such a twin."""
    vocabulary = tokenizer.get_vocab()
    return [
        (vocabulary[token[1:]], number)
        for token, number in vocabulary.items()
        if token[0] == SPACE and token[1:] in vocabulary
    ]


def _without(text: str, marks: tuple[str, ...]) -> str:
    for mark in marks:
        text = text.replace(mark, "\n")
    return text


def saved_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(directory)
    return tokenizer


def token_id(tokenizer: PreTrainedTokenizerFast, text: str) -> int:
    found = tokenizer.convert_tokens_to_ids(text)
    assert isinstance(found, int)
    return found
