"""A tokenizer made by hand: a few words, with the special tokens of BERT."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer, models, pre_tokenizers, processors

PAD, UNKNOWN, CLS, SEP = range(4)
WORDS: Final = [
    *("the", "cat", "sat", "on", "mat", "a", "dog"),
    *("ran", "to", "house", "red", "blue", "yes", "no"),
]
VOCABULARY: Final = {
    word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])
}


def ids(text: str) -> list[int]:
    """Return the tokens of a text of words and spaces, without special ones."""
    return [VOCABULARY.get(word, UNKNOWN) for word in text.split()]


def with_special(text: str) -> list[int]:
    """Return the tokens of a text as BERT gets them."""
    return [CLS, *ids(text), SEP]


def write_tokenizer(directory: Path) -> Path:
    """Write a tokenizer.json; returns the file."""
    tokenizer: Any = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    # Settings of the file must not cut or pad: a server's requests say what is cut.
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=7, pad_id=PAD)
    file = directory / "tokenizer.json"
    tokenizer.save(str(file))
    return file
