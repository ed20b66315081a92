# The patterns are written as the models' own files have them.
# ruff: noqa: RUF001
r"""Patterns that cut a text into words before byte-pair merging, by ``tokenizer.ggml.pre``.

A pattern is data of the model's own ``tokenizer.json`` (``pre_tokenizer``). GGUF files carry only a
name for it, which llama.cpp's converter finds by the tokens of a fixed text. A wrong pattern gives
other tokens without any error, so a name that is not listed is refused.

Several patterns of one name are applied in order: each cuts the pieces that the one before has
left, and both the matches and the text between them are pieces. The dialect is PCRE2 with Unicode
properties, as openvino_tokenizers has it. There ``\p{Han}`` has the punctuation that Chinese shares
with other scripts too, and ``\p{sc:Han}`` has not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from calculators.kit.checkpoints.gguf_vocabulary import Vocabulary
from graph_runtime import ResourceError


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
    """

    patterns: tuple[str, ...]
    adds_bos: bool = False
    adds_separator: bool = False
    is_byte_level: bool = True
    escapes_spaces: bool = False
    takes_whole_words: bool = False


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
        (r"[^\n]+|\n+",), adds_bos=True, is_byte_level=False, escapes_spaces=True
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
