"""`TextTokenizer`: texts and pairs of texts as token ids, in the model's process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from calculators.kit.model_json import read_model_json
from calculators.text.text_models.encoded import Tokens
from calculators.text.text_models.messages import Load

Side = Literal["left", "right"]


class TextTokenizer(ABC):
    """The tokenizer of a model's directory. Any thread may call it.

    Attributes:
        max_tokens: the most tokens of one sequence, special ones included.
        vocabulary: token ids are smaller than this; 0 if neither the model nor its tokenizer says.
        pad: the id of the padding token; 0 if the model has none.
        adds_bos: ``add_bos_token`` of tokenizer_config.json is not false.
        config: the model's config.json.
        settings: the task's own settings, `Load.head`.
    """

    def __init__(self, load: Load, vocabulary: int) -> None:
        """``vocabulary``: the tokenizer's, for models whose config.json does not say theirs."""
        directory = Path(load.model_path)
        self.max_tokens = load.max_tokens
        self.settings: Mapping[str, Any] = load.head
        self.config = read_model_json(directory / "config.json")
        said = self.config.get("vocab_size")
        self.vocabulary: int = said if type(said) is int and said > 0 else vocabulary
        pad = self.config.get("pad_token_id")
        self.pad: int = pad if type(pad) is int and pad >= 0 else 0
        tokenizer_config = read_model_json(directory / "tokenizer_config.json")
        self.adds_bos = tokenizer_config.get("add_bos_token") is not False

    @abstractmethod
    def encode(self, texts: Sequence[str], *, adds_special: bool = True) -> list[Tokens]:
        """Return the tokens of each text, of any length."""

    @abstractmethod
    def encode_cut(
        self,
        texts: Sequence[str],
        *,
        most: int | None = None,
        side: Side = "right",
        adds_special: bool = True,
    ) -> list[Tokens]:
        """Return the tokens of each text, at most ``most`` of them; special tokens stay.

        ``most``: `max_tokens` by default; ``side``: the side that is cut off.
        """

    @abstractmethod
    def encode_pairs(
        self,
        first: str,
        seconds: Sequence[str],
        *,
        most: int | None = None,
        first_most: int | None = None,
        seconds_most: int | None = None,
        chunks: bool = False,
        side: Side = "right",
    ) -> list[list[Tokens]]:
        """Return the sequences for the pair of ``first`` with each of ``seconds``.

        Special tokens and segment ids are those of the tokenizer's own template for pairs.

        Args:
            most: tokens of a sequence; `max_tokens` by default.
            first_most: tokens of ``first``; the rest is cut off.
            seconds_most: tokens of each second text; the rest is cut off.
            chunks: a second text that does not fit is split into consecutive parts, each with a
                sequence of its own; otherwise it is cut off.
            side: the side that is cut off, where chunks do not keep all.

        Raises:
            InputError: ``first`` leaves no room; the tokenizer has no template for pairs.
        """

    @abstractmethod
    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special ones."""

    @abstractmethod
    def offsets(self, text: str, *, adds_special: bool = True) -> list[tuple[int, int]]:
        """Return the characters of each token of ``encode``: first, and behind the last.

        Raises:
            InputError: the tokenizer does not know them.
        """

    @abstractmethod
    def id_of(self, token: str) -> int | None:
        """Return the id of a token as the vocabulary writes it; None if it has no such token."""

    @abstractmethod
    def decode(self, ids: Sequence[int], *, skips_special: bool = False) -> str:
        """Return the text of token ids, each of which must be in the vocabulary."""
