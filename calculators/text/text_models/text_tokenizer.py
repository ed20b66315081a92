"""Texts as token ids, in the process of an encoder model: the tokenizer's interface, and questions.

A question of a task becomes `Encoded`: sequences of `TextTokens`, each of which gets a row of the
answer, or an `InputError` for the client. `Tokenize` and `Detokenize` are questions that every
process answers beside those of its task; the server has their types from here, and so this module
loads no library of tokenizers: `calculators.text.text_models.tokenizer_files` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from calculators.kit.model_json import read_model_json
from calculators.text.text_models.messages import EncoderLoad

Ids: TypeAlias = NDArray[np.int64]


class TextTokens(NamedTuple):
    """One sequence for the model, without padding.

    Attributes:
        ids: token ids, shape ``[tokens]``.
        types: segment ids of the same shape; None: all are 0.
    """

    ids: Ids
    types: Ids | None = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """A question as sequences, each of which gets a row of the answer.

    Attributes:
        sequences: none are answered at once.
        note: returned beside the rows; anything that MessagePack takes.
    """

    sequences: list[TextTokens]
    note: Any = None


class InputError(ValueError):
    """A question that the model cannot answer; the text is for the client.

    Attributes:
        param: the member of the request that is at fault, such as ``input[3]``; None if unknown.
        code: the name of a `graph_runtime.Code`.
    """

    def __init__(
        self, reason: str, param: str | None = None, code: str = "INVALID_ARGUMENT"
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.param = param
        self.code = code


Side = Literal["left", "right"]


class TextTokenizer(ABC):
    """The tokenizer of a model's directory. Any thread may call it.

    Attributes:
        max_tokens: the most tokens of one sequence, special ones included.
        vocabulary: token ids are smaller than this; 0 if neither the model nor its tokenizer says.
        pad: the id of the padding token; 0 if the model has none.
        adds_bos: ``add_bos_token`` of tokenizer_config.json is not false.
        config: the model's config.json.
        settings: the task's own settings, `EncoderLoad.head`.
    """

    def __init__(self, load: EncoderLoad, vocabulary: int) -> None:
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
    def encode(self, texts: Sequence[str], *, adds_special: bool = True) -> list[TextTokens]:
        """Return the tokens of each text, of any length."""

    def encode_cut(
        self,
        texts: Sequence[str],
        *,
        most: int | None = None,
        side: Side = "right",
        adds_special: bool = True,
    ) -> list[TextTokens]:
        """Return the tokens of each text, at most ``most`` of them; special tokens stay.

        ``most``: `max_tokens` by default; ``side``: the side that is cut off.
        """
        most = self.max_tokens if most is None else most
        made = self.encode(texts, adds_special=adds_special)
        for place, tokens in enumerate(made):
            if len(tokens.ids) > most:
                made[place] = self.cut(texts[place], tokens, most, side, adds_special)
        return made

    @abstractmethod
    def cut(
        self, text: str, tokens: TextTokens, most: int, side: Side, adds_special: bool
    ) -> TextTokens:
        """Return ``most`` of the tokens of a text; ``tokens``: all of them."""

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
    ) -> list[list[TextTokens]]:
        """Return the sequences for the pair of ``first`` with each of ``seconds``.

        Special tokens and segment ids follow the tokenizer's own template for pairs.

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
        raise InputError(
            "the model's directory has no tokenizer.json, which pairs of texts need",
            code="FAILED_PRECONDITION",
        )

    @abstractmethod
    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special ones."""

    def offsets(self, text: str, *, adds_special: bool = True) -> list[tuple[int, int]]:
        """Return the characters of each token of ``encode``: the first, and the one after the last.

        Raises:
            InputError: the tokenizer does not know them.
        """
        raise InputError(
            "the model's directory has no tokenizer.json, which offsets need", "return_offsets"
        )

    @abstractmethod
    def id_of(self, token: str) -> int | None:
        """Return the id of a token as the vocabulary writes it; None if it has no such token."""

    @abstractmethod
    def decode(self, ids: Sequence[int], *, skips_special: bool = False) -> str:
        """Return the text of token ids, each of which must be in the vocabulary."""


class Tokenize(msgspec.Struct, frozen=True, tag="tokenize", array_like=True):
    """Tokens of texts; the note of the answer is a `Tokenized`.

    Attributes:
        most: cut texts to this many tokens.
        with_offsets: also return the characters of each token.
    """

    texts: list[str]
    adds_special: bool = True
    most: int | None = None
    side: Literal["left", "right"] = "right"
    with_offsets: bool = False


class Detokenize(msgspec.Struct, frozen=True, tag="detokenize", array_like=True):
    """The text of token ids; the note of the answer is the text."""

    tokens: list[int]
    skips_special: bool = False


class Tokenized(msgspec.Struct, frozen=True, array_like=True):
    """Token ids of each text.

    Attributes:
        offsets: of each token its first character and the one after its last; None: not asked.
        pad: the id of the padding token.
    """

    tokens: list[list[int]]
    offsets: list[list[tuple[int, int]]] | None
    pad: int


def answer_question(tokenizer: TextTokenizer, question: Tokenize | Detokenize) -> Encoded:
    """Return the answer, which has no sequences.

    Raises:
        InputError: ids are not in the vocabulary; the tokenizer knows no offsets.
    """
    if isinstance(question, Detokenize):
        check_ids(question.tokens, tokenizer.vocabulary, "tokens")
        text = tokenizer.decode(question.tokens, skips_special=question.skips_special)
        return Encoded([], text)
    if question.most is None:
        made = tokenizer.encode(question.texts, adds_special=question.adds_special)
    else:
        made = tokenizer.encode_cut(
            question.texts,
            most=question.most,
            side=question.side,
            adds_special=question.adds_special,
        )
    offsets = None
    if question.with_offsets:
        offsets = [
            tokenizer.offsets(text, adds_special=question.adds_special)[: len(tokens.ids)]
            for text, tokens in zip(question.texts, made, strict=True)
        ]
    ids = [tokens.ids.tolist() for tokens in made]
    return Encoded([], Tokenized(ids, offsets, tokenizer.pad))


def check_ids(ids: Sequence[int], vocabulary: int, param: str) -> None:
    """Refuse token ids that the model has no vector for.

    Raises:
        InputError: with the first of them.
    """
    if not vocabulary:
        raise InputError(
            "token ids are not taken: the model's config.json does not have vocab_size", param
        )
    if ids and not 0 <= min(ids) <= max(ids) < vocabulary:
        place, wrong = next(
            (place, each) for place, each in enumerate(ids) if not 0 <= each < vocabulary
        )
        raise InputError(
            f"the token id {wrong} is not in the model's vocabulary, whose ids are 0 to "
            f"{vocabulary - 1}; tokens must come from this model's tokenizer",
            f"{param}[{place}]",
            "OUT_OF_RANGE",
        )
