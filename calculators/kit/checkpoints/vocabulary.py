# The patterns are written as the models' own files have them.
# ruff: noqa: RUF001
r"""`Vocabulary`: the tokens of a GGUF file, and what its metadata say about them.

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

A `PreTokenizer` cuts a text into words before byte-pair merging, by ``tokenizer.ggml.pre``.

A pattern is data of the model's own ``tokenizer.json`` (``pre_tokenizer``). GGUF files carry only a
name for it, which llama.cpp's converter finds by the tokens of a fixed text. A wrong pattern gives
other tokens without any error, so a name that is not listed is refused.

Several patterns of one name are applied in order: each cuts the pieces that the one before has
left, and both the matches and the text between them are pieces. The dialect is PCRE2 with Unicode
properties, as openvino_tokenizers has it. There ``\p{Han}`` has the punctuation that Chinese shares
with other scripts too, and ``\p{sc:Han}`` has not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calculators.kit.checkpoints.gguf import Metadata
from graphrt_base.errors import ResourceError

_PREFIX: Final = "tokenizer.ggml."
_TEMPLATE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
KINDS: Final = ("gpt2", "gemma4", "llama", "bert", "t5")
#: The ids of tokens that a file does not name.
_IDS: Final[Mapping[str, Mapping[str, int]]] = {
    "llama": {"bos": 1, "eos": 2, "unknown": 0},
    "t5": {"eos": 1, "unknown": 2, "padding": 0},
    "bert": {"bos": 101, "cls": 101, "unknown": 100, "seperator": 102, "padding": 0, "mask": 103},
}

#: Ids that are written for "none".
_NO_TOKEN: Final = (-1, 2**32 - 1)

#: Pre-tokenizers of models whose mask swallows the spaces before it.
_MASK_STRIPS: Final = ("jina-v2-de", "jina-v2-es", "jina-v2-code")
#: Texts of tokens that end an answer whatever the keys say. Most files name one end token only, and
#: a chat model has another one at the end of a turn.
_ENDS: Final = frozenset(
    b"""<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn>
    <|endoftext|> </s> <|eom_id|> <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos>
    <turn|> <|tool_response> [e~[ <|endofturn|> <|END_OF_TURN_TOKEN|> <|eot|>""".split()
) | {"<｜end▁of▁sentence｜>".encode()}
#: Between files of a repository, and after text that was filled in.
_INFILL_ENDS: Final = frozenset(
    b"""<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD] <|fim_repo|> <|repo_name|> <fim-repo> <REPO>
    <reponame> <|file_sep|>""".split()
)
#: The member of a converted model's ``config.json`` with the ids of the tokens for filling in text
#: that its file names, and the keys of these, of which files have one.
INFILL_IDS: Final = "infill_token_ids"
_INFILL_KEYS: Final = {
    "prefix": ("fim_pre", "prefix"),
    "suffix": ("fim_suf", "suffix"),
    "middle": ("fim_mid", "middle"),
    "repository": ("fim_rep",),
    "file": ("fim_sep",),
    "pad": ("fim_pad",),
}


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
        infill: ids of the tokens that the file names for filling in text, by their part.
        adds_bos, adds_eos, adds_separator: None where the file does not say and it depends on the
            pre-tokenizer.
        adds_space: a text begins with a space.
        merges_spaces: runs of spaces become one.
        normalization: SentencePiece's compiled table of replacements.
        lowercases, strips_accents: of WordPiece.
        templates: chat templates by name; "" is the default one.
        strips_after: special tokens swallow the spaces after them (Phi-3).
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
    infill: Mapping[str, int]
    adds_bos: bool | None
    adds_eos: bool
    adds_separator: bool | None
    adds_space: bool
    merges_spaces: bool
    normalization: bytes
    lowercases: bool
    strips_accents: bool
    templates: Mapping[str, str]
    strips_after: bool
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
    return _VocabularyReader(metadata, file).read()


class _VocabularyReader:
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
            infill=self._infill(),
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
            strips_after=any(each in name.lower() for each in ("phi-3", "phi3")),
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
        for number, merge in enumerate(merges):
            if b" " not in merge[1:-1]:
                shown = merge[:40].decode("utf-8", "replace")
                raise self._damaged("merges", f"has no pair of texts at place {number}: {shown!r}")
        return merges

    def _normalization(self) -> bytes:
        table = self._metadata.numbers(_PREFIX + "precompiled_charsmap")
        if table is not None and table.dtype.itemsize != 1:
            raise self._damaged("precompiled_charsmap", "must be a list of bytes")
        return b"" if table is None else table.tobytes()

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

    def _infill(self) -> dict[str, int]:
        found = {
            name: next((id for key in keys if (id := self._token(key)) is not None), None)
            for name, keys in _INFILL_KEYS.items()
        }
        return {name: id for name, id in found.items() if id is not None}

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
        is_there = token is None or token in _NO_TOKEN or 0 <= token < len(self._tokens)
        if self._has(key) and not is_there and key != "padding":  # which some files have from afar
            raise self._damaged(f"{key}_token_id", f"is {token}, of {len(self._tokens)} tokens")
        return token if token is not None and 0 <= token < len(self._tokens) else None

    def _flag(self, key: str, default: bool) -> bool:
        return bool(self._metadata.flag(_PREFIX + key, default))

    def _damaged(self, key: str, what: str) -> ResourceError:
        return ResourceError(f'"{self._file}": the value "{_PREFIX}{key}" {what}')


class PreTokenizer(NamedTuple):
    """The way in which texts are cut before merging.

    Attributes:
        patterns: applied one after the other.
        adds_bos: the model's texts begin with a BOS token where the file does not say.
        adds_separator: the model's texts end with a separator where the file does not say.
        is_byte_level: tokens are written in GPT-2's alphabet of bytes; else as plain text.
        escapes_spaces: a space is written as U+2581 before anything else.
        takes_whole_words: a word that is a token is that token, even if no merges lead to it
            (``ignore_merges``).
        takes_lines: so it is with words of line ends only.
    """

    patterns: tuple[str, ...]
    adds_bos: bool = False
    adds_separator: bool = False
    is_byte_level: bool = True
    escapes_spaces: bool = False
    takes_whole_words: bool = False
    takes_lines: bool = False


# Parts ------------------------------------------------------------------------------------------

_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_DIGIT: Final = r"\p{N}"
_CONTRACTION: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SYMBOLS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
#: Digits in threes from the right, as 12,345 is written.
_THREES_FROM_RIGHT: Final = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"


def _words(
    digits: str,
    *,
    contraction: str = _CONTRACTION + "|",
    letters: str = r"\p{L}+",
    symbols: str = _SYMBOLS,
    spaces: str = _SPACES,
) -> str:
    """Return the pattern of Llama 3 and its kin: words with one leading symbol, digits, symbols."""
    return rf"{contraction}[^\r\n\p{{L}}\p{{N}}]?{letters}|{digits}|{symbols}|{spaces}"


def _cased_words(digits: str, ending: str, *, but: str = "", symbols: str = r"[\r\n/]*") -> str:
    """Return the pattern of o200k: words are also cut before an upper-case letter.

    Args:
        ending: follows a word.
        but: letters that are no part of a word.
    """
    upper = rf"(?:{but}[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}])"
    lower = rf"(?:{but}[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}])"
    begin = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{begin}{upper}*{lower}+{ending}|{begin}{upper}+{lower}*{ending}|{digits}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+{symbols}|{_SPACES}"
    )


_LLAMA3: Final = _words(r"\p{N}{1,3}")
_QWEN2: Final = _words(_DIGIT)
_QWEN35: Final = _words(_DIGIT, letters=r"[\p{L}\p{M}]+", symbols=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*")
_O200K: Final = _cased_words(r"\p{N}{1,3}", _CONTRACTION + "?")
_CJK: Final = "[一-龥\u0800-一가-\ud7ff]+"
_HAN_AND_KANA: Final = "[一-龥\u3040-\u309f\u30a0-\u30ff]+"
_PUNCTUATED: Final = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
)
_DEEPSEEK3: Final = (
    r"\p{N}{1,3}",
    _HAN_AND_KANA,
    _PUNCTUATED + r"| ?[\p{P}\p{S}]+[\r\n]*|" + _SPACES,
)
#: Letters as DeepSeek LLM's tokenizer.json lists them: cased letters without `\p{Lm}` and `\p{Lo}`.
_DEEPSEEK_LETTERS: Final = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-"
    "ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ"
    "\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
_NO_PUNCTUATION: Final = r" ?[^(\s|.,!?…。，、।۔،)]+"
_ASIAN: Final = (
    "[一-鿿㐀-䶿豈-﫿\u3040-\u309f\u30a0-\u30ff･-ﾟ⼀-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff"
    "\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff가-\ud7af\u1100-\u11ff]+"
)
_NOT_HAN: Final = r"(?!\p{sc:Han})"

# Names ------------------------------------------------------------------------------------------

_PATTERNS: Final[Mapping[tuple[str, ...], PreTokenizer]] = {
    (
        "default",
        "gpt-2",
        "phi-2",
        "jina-es",
        "jina-de",
        "jina-v2-es",
        "jina-v2-de",
        "gigachat",
        "a.x-4.0",
        "mellum",
        "modern-bert",
        "mpt",
        "olmo",
        "jais",
        "trillion",
        "granite-docling",
        "exaone4",
    ): PreTokenizer((_GPT2,)),
    ("jina-v1-en", "jina-v2-code", "roberta-bpe"): PreTokenizer((_GPT2,), adds_separator=True),
    (
        "starcoder",
        "refact",
        "command-r",
        "smollm",
        "codeshell",
        "exaone",
        "minerva-7b",
        "mellum2",
    ): PreTokenizer((_DIGIT, _GPT2)),
    (
        "llama3",
        "llama-v3",
        "llama-bpe",
        "falcon3",
        "falcon-h1",
        "pixtral",
        "midm-2.0",
        "lfm2",
        "jina-v5-nano",
    ): PreTokenizer((_LLAMA3,), adds_bos=True, takes_whole_words=True),
    ("dbrx", "smaug-bpe", "chatglm-bpe"): PreTokenizer((_LLAMA3,)),
    ("glm4", "glm5"): PreTokenizer((_LLAMA3,), takes_whole_words=True),
    ("minicpm5",): PreTokenizer((r"\p{N}{1,3}", _words(r"\p{N}+")), takes_whole_words=True),
    ("jais-2",): PreTokenizer(
        (
            _words(
                r"\p{N}{1,3}",
                spaces=r"\s*[\r\n]+|"
                + "|".join(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4, "1,2"))
                + r"|\s",
            ),
        )
    ),
    (
        "qwen2",
        "deepseek-r1-qwen",
        "kormo",
        "f2llmv2",
        "stablelm2",
        "hunyuan",
        "megrez",
        "solar-open",
        "grok-2",
    ): PreTokenizer((_QWEN2,)),
    ("qwen35",): PreTokenizer((_QWEN35,)),
    ("ufakzeka",): PreTokenizer((_words(_DIGIT, contraction=""),)),
    ("laguna",): PreTokenizer((r"[^\n]+|\n+", _QWEN2)),
    ("bailingmoe", "bailingmoe2", "llada-moe"): PreTokenizer(
        (
            _words(
                _DIGIT,
                contraction=r"'(?i:[sdmt]|ll|ve|re)|",
                spaces=r"\s*[\r\n]|\s+(?!\S)|\s+",
            ),
        )
    ),
    ("seed-coder",): PreTokenizer((_words(_DIGIT, symbols=r" ?[^\s\p{L}\p{N}\r\n]+"),)),
    ("exaone-moe",): PreTokenizer(
        (
            _words(
                _DIGIT,
                letters=r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",
                symbols=r" ?[^\s\p{L}\p{N}]+[\r\n/]?",
                spaces=r"\s*[\r\n]|\s+(?!\S)|\s+",
            ),
        )
    ),
    ("minimax-m2",): PreTokenizer((_O200K,)),
    ("gpt-4o", "llama4", "kanana2", "talkie", "granite-embed-multi-97m"): PreTokenizer(
        (_O200K,), takes_whole_words=True
    ),
    ("tekken",): PreTokenizer((_cased_words(_DIGIT, ""),), adds_bos=True, takes_whole_words=True),
    ("tiny_aya", "cohere2moe"): PreTokenizer((r"\d{1,3}(?=(?:\d{3})*\b)", _O200K)),
    ("youtu",): PreTokenizer(
        (
            "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + _HAN_AND_KANA,
            _cased_words(_DIGIT, _CONTRACTION + "?"),
        ),
        takes_whole_words=True,
    ),
    ("kimi-k2",): PreTokenizer(
        (
            r"\p{sc:Han}+|"
            + _cased_words(r"\p{N}{1,3}", _CONTRACTION + "?", but=_NOT_HAN, symbols=r"[\r\n]*"),
        )
    ),
    ("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"): PreTokenizer(_DEEPSEEK3),
    ("spark2_5",): PreTokenizer(
        (
            r"\p{N}{1,3}",
            _HAN_AND_KANA,
            _PUNCTUATED + r"| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+",
            _DIGIT,
        )
    ),
    ("afmoe",): PreTokenizer((_THREES_FROM_RIGHT, _ASIAN, _DEEPSEEK3[-1])),
    ("superbpe",): PreTokenizer((r"\p{N}+", r"\d{1,3}(?=(?:\d{3})*(?!\d))")),
    ("deepseek-llm",): PreTokenizer(
        (
            r"[\r\n]",
            rf"\s?[{_DEEPSEEK_LETTERS}]+",
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
            r"\s+$",
            _CJK,
            r"\p{N}+",
        )
    ),
    ("deepseek-coder",): PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, _DIGIT)),
    ("falcon",): PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]")),
    ("poro-chat", "bloom", "gpt3-finnish"): PreTokenizer((_NO_PUNCTUATION,)),
    ("viking",): PreTokenizer((_NO_PUNCTUATION, _DIGIT)),
    ("chameleon",): PreTokenizer(
        (
            r"<sentinel:[0-9]+>",
            r"IMGIMG[A-I]{1,4}Z",
            r"[\t\n]|    |  ",
            _DIGIT,
            r"[\p{P}!-/:-@\[-`{-~]",
            _GPT2,
        ),
        adds_bos=True,
    ),
    ("gemma4", "granite-embed-multi-311m"): PreTokenizer(
        (r"[^\n]+|\n+",),
        adds_bos=True,
        is_byte_level=False,
        escapes_spaces=True,
        takes_lines=True,
    ),
    ("sarvam-moe",): PreTokenizer((r"[^\n]+|\n+",), is_byte_level=False, escapes_spaces=True),
}

PRETOKENIZERS: Final[Mapping[str, PreTokenizer]] = {
    name: made for names, made in _PATTERNS.items() for name in names
}


def pre_tokenizer_of(vocabulary: Vocabulary, file: str) -> PreTokenizer:
    """Return the way in which texts are cut for a vocabulary.

    Args:
        file: the name of the vocabulary's file, for errors.

    Raises:
        ResourceError: it is not known how.
    """
    if vocabulary.kind == "gemma4":
        return PRETOKENIZERS["gemma4"]
    if vocabulary.kind != "gpt2":
        return PreTokenizer(())
    name = vocabulary.pre_tokenizer or "default"
    if name not in PRETOKENIZERS:
        raise ResourceError(
            f'"{file}" needs the pre-tokenizer "{name}" (the value "tokenizer.ggml.pre"), which '
            "is not known: its texts would be cut otherwise, and the answers be wrong. Known are "
            + ", ".join(PRETOKENIZERS)
        )
    return PRETOKENIZERS[name]
