"""`Vocabulary`: the tokens of a GGUF file, and what its metadata say about them.

Source: ggml's ``docs/gguf.md`` and the defaults of llama.cpp for keys that files leave out. Tokens
are bytes throughout: not every token is UTF-8.

A vocabulary is of one *kind*, ``tokenizer.ggml.model``:

========  ==========================================================================================
gpt2      byte-level BPE: merges in ``tokenizer.ggml.merges``, words cut by `tokenizer.ggml.pre`
gemma4    BPE of plain text, with the same keys
llama     SentencePiece's BPE: pairs are merged by the score of what they become
bert      WordPiece; a token that begins a word has U+2581 in front of it
t5        SentencePiece's Unigram model: the best sum of scores
========  ==========================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calculators.kit.checkpoints.gguf import Metadata
from graph_runtime import ResourceError

_PREFIX: Final = "tokenizer.ggml."
_TEMPLATE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
KINDS: Final = ("gpt2", "gemma4", "llama", "bert", "t5")
#: The ids of tokens that a file does not name.
_IDS: Final[Mapping[str, Mapping[str, int]]] = {
    "llama": {"bos": 1, "eos": 2, "unknown": 0},
    "t5": {"eos": 1, "unknown": 2, "padding": 0},
    "bert": {"bos": 101, "cls": 101, "unknown": 100, "seperator": 102, "padding": 0, "mask": 103},
}

#: Pre-tokenizers of models whose mask swallows the spaces before it.
_MASK_STRIPS: Final = ("jina-v2-de", "jina-v2-es", "jina-v2-code")
#: Texts of tokens that end an answer whatever the keys say. Most files name one end token only, and
#: a chat model has another one at the end of a turn.
_ENDS: Final = frozenset(
    b"""<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn>
    <|endoftext|> </s> <|eom_id|> <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos>
    <turn|> <|tool_response> [e~[ <|endofturn|> <|END_OF_TURN_TOKEN|> <|eot|>""".split()
) | {"<｜end▁of▁sentence｜>".encode()}  # noqa: RUF001
#: Between files of a repository, and after text that was filled in.
_INFILL_ENDS: Final = frozenset(
    b"""<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD] <|fim_repo|> <|repo_name|> <fim-repo> <REPO>
    <reponame> <|file_sep|>""".split()
)


class TokenType(IntEnum):
    """The values in ``tokenizer.ggml.token_type``."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


_SPECIAL: Final = (TokenType.CONTROL, TokenType.USER_DEFINED, TokenType.UNKNOWN)
_HIDDEN: Final = (TokenType.CONTROL, TokenType.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Tokens by id, and how texts become tokens.

    Attributes:
        kind: one of `KINDS`.
        pre_tokenizer: the name of the patterns that cut words; "" where the file has none.
        types: a `TokenType` for each token.
        scores: a number for each token; empty where the file has none.
        merges: pairs as they are written, ``left right``, in order.
        bos, eos, pad, unknown, separator, mask: ids; None: the vocabulary has no such token.
        ends: ids of all tokens that end an answer, in order.
        adds_bos, adds_eos, adds_separator: None where the file does not say and it depends on the
            pre-tokenizer.
        adds_space: a text begins with a space.
        merges_spaces: runs of spaces become one.
        normalization: SentencePiece's compiled table of replacements.
        lowercases, strips_accents: of WordPiece.
        templates: chat templates by name; "" is the default one.
        strips_behind: special tokens swallow the spaces behind them (Phi-3).
        mask_strips: the mask swallows the spaces before it.
    """

    kind: str
    pre_tokenizer: str
    tokens: Sequence[bytes]
    types: NDArray[np.int8]
    scores: NDArray[np.float32]
    merges: Sequence[bytes]
    bos: int | None
    eos: int | None
    pad: int | None
    unknown: int | None
    separator: int | None
    mask: int | None
    ends: Sequence[int]
    adds_bos: bool | None
    adds_eos: bool
    adds_separator: bool | None
    adds_space: bool
    merges_spaces: bool
    normalization: bytes
    lowercases: bool
    strips_accents: bool
    templates: Mapping[str, str]
    strips_behind: bool
    mask_strips: bool

    @property
    def padding(self) -> int | None:
        """The token that fills up a shorter text of a batch."""
        return self.eos if self.pad is None else self.pad

    @property
    def special(self) -> list[int]:
        """Tokens that are found in a text before it is cut into words."""
        return [i for i in self._of(_SPECIAL) if self.tokens[i]]

    @property
    def hidden(self) -> list[int]:
        """Tokens that are left out of a decoded text."""
        return self._of(_HIDDEN)

    def _of(self, types: Sequence[TokenType]) -> list[int]:
        found: list[int] = np.flatnonzero(np.isin(self.types, types)).tolist()
        return found

    def text(self, token: int | None) -> str:
        """Return the text of a token; "" for None."""
        return "" if token is None else self.tokens[token].decode("utf-8", "replace")


def read_vocabulary(metadata: Metadata, file: str) -> Vocabulary:
    """Read the vocabulary from the metadata of a GGUF file.

    Args:
        file: its name, for errors.

    Raises:
        ResourceError: there is no vocabulary, or it is of another kind or damaged.
    """
    return _Reader(metadata, file).read()


class _Reader:
    def __init__(self, metadata: Metadata, file: str) -> None:
        self._metadata = metadata
        self._file = file
        self._kind = ""
        self._tokens: list[bytes] = []

    def read(self) -> Vocabulary:
        kind = self._kind = self._checked_kind()
        self._tokens = self._metadata.texts(_PREFIX + "tokens") or []
        if not self._tokens:
            raise self._damaged("tokens", "is missing or empty")
        types = self._types()
        lowercases = self._flag("normalizer.lowercase", kind == "bert")
        name = self._metadata.text("general.name", "") or ""
        architecture = self._metadata.text("general.architecture", "") or ""
        pre = self._metadata.text(_PREFIX + "pre", "") or ""
        eos = self._end()
        return Vocabulary(
            kind=kind,
            pre_tokenizer=pre,
            tokens=self._tokens,
            types=types,
            scores=self._scores(),
            merges=self._merges(),
            bos=self._token("bos" if self._kind != "bert" or self._has("bos") else "cls"),
            eos=eos,
            pad=self._token("padding"),
            unknown=self._token("unknown"),
            separator=self._token("seperator"),  # as ggml spells it
            mask=self._token("mask"),
            ends=self._ends(eos, types),
            adds_bos=self._metadata.flag(
                _PREFIX + "add_bos_token", {"llama": True, "bert": True, "t5": False}.get(kind)
            ),
            adds_eos=self._flag("add_eos_token", kind == "t5"),
            adds_separator=self._metadata.flag(
                _PREFIX + "add_sep_token", True if kind == "bert" else None
            ),
            adds_space=self._flag("add_space_prefix", kind in ("llama", "t5")),
            merges_spaces=self._flag("remove_extra_whitespaces", False),
            normalization=self._normalization(),
            lowercases=lowercases,
            strips_accents=self._flag("normalizer.strip_accents", lowercases),
            templates=self._templates(),
            strips_behind=any(each in name.lower() for each in ("phi-3", "phi3")),
            mask_strips=pre in _MASK_STRIPS
            or architecture in ("nomic-bert-moe", "jina-bert-v3", "modern-bert"),
        )

    def _checked_kind(self) -> str:
        kind = self._metadata.text(_PREFIX + "model", "") or ""
        if kind in ("", "no_vocab", "none"):
            raise ResourceError(
                f'"{self._file}" has no tokenizer (the value "{_PREFIX}model" is missing): it '
                "cannot read texts. Take a file of the whole model"
            )
        if kind not in KINDS:
            raise ResourceError(
                f'"{self._file}" has a tokenizer of the kind "{kind}" ("{_PREFIX}model"), which is '
                f"not known; known are {', '.join(KINDS)}"
            )
        return kind

    def _types(self) -> NDArray[np.int8]:
        types = self._numbers("token_type")
        if types is None:
            return np.full(len(self._tokens), TokenType.NORMAL, np.int8)
        known = (types >= 0) & (types <= TokenType.BYTE)
        return np.where(known, types, TokenType.UNDEFINED).astype(np.int8)

    def _scores(self) -> NDArray[np.float32]:
        scores = self._numbers("scores")
        if scores is None:
            if self._kind in ("llama", "t5"):
                raise self._damaged("scores", f'is missing, which the kind "{self._kind}" needs')
            return np.empty(0, np.float32)
        if not np.isfinite(scores).all():
            raise self._damaged("scores", "has numbers that are not finite")
        return scores.astype(np.float32)

    def _merges(self) -> list[bytes]:
        merges = self._metadata.texts(_PREFIX + "merges") or []
        if not merges and self._kind in ("gpt2", "gemma4"):
            raise self._damaged("merges", f'is missing, which the kind "{self._kind}" needs')
        return merges

    def _normalization(self) -> bytes:
        table = self._metadata.numbers(_PREFIX + "precompiled_charsmap")
        return b"" if table is None else table.astype(np.uint8).tobytes()

    def _end(self) -> int | None:
        eos = self._token("eos")
        if self._kind == "gpt2" and eos is None and b"<|endoftext|>" in self._tokens:
            return self._tokens.index(b"<|endoftext|>")
        return eos

    def _ends(self, eos: int | None, types: NDArray[np.int8]) -> list[int]:
        found = {each for each in (eos, self._token("eot"), self._token("eom")) if each is not None}
        special = np.flatnonzero(np.isin(types, (TokenType.CONTROL, TokenType.USER_DEFINED)))
        texts = {self._tokens[i]: i for i in special.tolist()}
        found |= {i for text, i in texts.items() if text in _ENDS or text in _INFILL_ENDS}
        calls = {b"<|call|>", b"<|calls|>"} & texts.keys()
        if calls and {b"<|return|>", b"<|flush|>"} & texts.keys():
            # It ends a message there, and an answer has several.
            found.discard(texts.get(b"<|end|>", -1))
        if b"<|tool_response>" in texts and eos != texts.get(b"</s>", -1):
            found.discard(texts.get(b"</s>", -1))  # a tag of HTML in Gemma 4
        return sorted(found)

    def _templates(self) -> dict[str, str]:
        key = "tokenizer.chat_template"
        found = {
            name[len(key) + 1 :]: self._metadata.text(name, "") or ""
            for name in self._metadata
            if name == key or name.startswith(f"{key}.")
        }
        for name in found:
            if name and not _TEMPLATE_NAME.fullmatch(name):
                raise ResourceError(
                    f'"{self._file}": "{key}.{name}" does not end in a name of letters, digits, - '
                    "and _"
                )
        return {name: text for name, text in found.items() if text and not text.isspace()}

    def _numbers(self, key: str) -> NDArray[Any] | None:
        """Return a list with a number for each token; None if there is none."""
        numbers = self._metadata.numbers(_PREFIX + key)
        if numbers is not None and len(numbers) < len(self._tokens):
            raise self._damaged(key, f"has {len(numbers)} numbers for {len(self._tokens)} tokens")
        return None if numbers is None else numbers[: len(self._tokens)]

    def _has(self, token: str) -> bool:
        return f"{_PREFIX}{token}_token_id" in self._metadata

    def _token(self, key: str) -> int | None:
        default = _IDS.get(self._kind, {}).get(key)
        token = self._metadata.integer(f"{_PREFIX}{key}_token_id", default)
        # 2**32 - 1 is written for "none".
        return token if token is not None and 0 <= token < len(self._tokens) else None

    def _flag(self, key: str, default: bool) -> bool:
        return bool(self._metadata.flag(_PREFIX + key, default))

    def _damaged(self, key: str, what: str) -> ResourceError:
        return ResourceError(f'"{self._file}": the value "{_PREFIX}{key}" {what}')
