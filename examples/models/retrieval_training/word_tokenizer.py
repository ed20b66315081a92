"""The tokenizer: BERT's, with words and parts of words of the project's documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.implementations import BertWordPieceTokenizer
from tokenizers.processors import TemplateProcessing

VOCABULARY = 6000


def train_tokenizer(texts: Sequence[str]) -> Tokenizer:
    """Return a tokenizer that adds [CLS] and [SEP], also to pairs."""
    trained = BertWordPieceTokenizer(lowercase=True)
    trained.train_from_iterator(texts, vocab_size=VOCABULARY, min_frequency=2)
    made = Tokenizer.from_str(trained.to_str())
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return made


def save_tokenizer(tokenizer: Tokenizer, directory: Path) -> None:
    """Write tokenizer.json, without the cutting and padding of training."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
