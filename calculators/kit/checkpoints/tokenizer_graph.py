"""Tokenizer and detokenizer of a vocabulary as OpenVINO models, of openvino_tokenizers' operations.

Texts are *ragged*: a batch of texts, each of several pieces, is five tensors. Two have the first
and last piece of each text, two the first and last byte of each piece, and one the bytes. Each
operation takes such tensors and returns others::

    text -> special tokens apart -> normalized -> words -> ids per word -> + BOS, EOS -> dense

    ids -> bytes of each token -> joined -> valid UTF-8 -> text

The tokenizer never truncates: the length of a prompt is checked where prompts are read, which have
to be counted for that.

The operations are created here by their names, and not by the classes of the package's pipeline,
which take seconds to pack a vocabulary of 262,144 texts and reorder what they are given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import openvino as ov
import openvino_tokenizers
from openvino import opset15 as opset
from openvino_tokenizers import _get_factory

from calculators.kit.checkpoints.vocabulary import (
    PreTokenizer,
    TokenType,
    Vocabulary,
    pre_tokenizer_of,
)

_Outputs: TypeAlias = list[Any]

_NAMES: Final = ("openvino_tokenizer", "openvino_detokenizer")
_META_SPACE: Final = "▁"
#: In front of a word that is a token as it is: a character that no text should have.
_WHOLE_WORD: Final = "\U0010fffe"
#: Words that the operation remembers with their tokens.
_REMEMBERED_WORDS: Final = 20_000
#: Tokens of a text, so far from the largest number that tokens around it do not exceed it.
_LONGEST: Final = np.iinfo(np.int32).max - 64
#: The dialect's characters that mean something outside of brackets.
_META: Final = re.compile(rb"[\\^$.\[|()?*+{}\]#\s-]")
_CHINESE: Final = (
    r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F}"
    r"\x{2B920}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}]"
)
#: What WordPiece leaves out, and where it cuts words.
_CONTROLS: Final = r"[\x{0}-\x{8}\x{B}\x{C}\x{E}-\x{1F}\x{7F}-\x{9F}\x{FFFD}]|\p{Cf}|\p{Co}"
#: Lower-case letters that the folding of case changes.
_FOLDED: Final = "".join(
    map(chr, [0xB5, 0x17F, 0x3C2, 0x3D0, 0x3D1, 0x3D5, 0x3D6, 0x3F0, 0x3F1, 0x3F5, 0x1E9B])
) + "".join(map(chr, [*range(0x1C80, 0x1C89), *range(0xAB70, 0xABC0)]))
#: Letters of private use, which texts do not have any more where these stand for others.
_PRIVATE, _NO_LETTER = 0xE000, "\uf8ff"
_ALONE: Final = r"[!-/:-@\[-`{-~]|\p{P}|" + _CHINESE


def make_models(vocabulary: Vocabulary, file: str) -> tuple[ov.Model, ov.Model]:
    """Return the tokenizer and the detokenizer.

    Args:
        file: the name of the vocabulary's file, for errors.

    Raises:
        ResourceError: it is not known how the vocabulary cuts words.
    """
    graph = _Graph(vocabulary, pre_tokenizer_of(vocabulary, file))
    return graph.tokenizer(), graph.detokenizer()


def write_tokenizer(vocabulary: Vocabulary, directory: Path, file: str) -> None:
    """Write the tokenizer's files into the directory of a model, with the chat templates.

    Raises:
        ResourceError: see `make_models`.
    """
    texts = {
        "bos_token": vocabulary.text(vocabulary.bos),
        "eos_token": vocabulary.text(vocabulary.eos),
        "pad_token": vocabulary.text(vocabulary.padding),
        "unk_token": vocabulary.text(vocabulary.unknown),
        "sep_token": vocabulary.text(vocabulary.separator),
        "mask_token": vocabulary.text(vocabulary.mask),
    }
    for model, name in zip(make_models(vocabulary, file), _NAMES, strict=True):
        for key, token in (
            ("bos_token_id", vocabulary.bos),
            ("eos_token_id", vocabulary.eos),
            ("pad_token_id", vocabulary.padding),
        ):
            if token is not None:
                model.set_rt_info(token, key)
        # Without the version the library (2026.4) does not look for the parts that it switches at
        # run time, such as special tokens (decision 0089).
        model.set_rt_info(openvino_tokenizers.__version__, "openvino_tokenizers_version")
        # The default compresses the scores of a Unigram model to float16.
        ov.save_model(model, directory / f"{name}.xml", compress_to_fp16=False)
    config = {name: text for name, text in texts.items() if text}
    (directory / "tokenizer_config.json").write_text(
        json.dumps(config, ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
    )
    for name, template in vocabulary.templates.items():
        path = directory / "chat_template.jinja"
        if name:
            path = directory / "additional_chat_templates" / f"{name}.jinja"
            path.parent.mkdir(exist_ok=True)
        path.write_text(template, encoding="utf-8")


class _Graph:
    def __init__(self, vocabulary: Vocabulary, pre_tokenizer: PreTokenizer) -> None:
        self._vocabulary = vocabulary
        self._pre_tokenizer = pre_tokenizer
        self._special = vocabulary.special
        self._is_byte_level = vocabulary.kind == "gpt2" and pre_tokenizer.is_byte_level
        self._is_escaped = vocabulary.kind in ("llama", "t5") or pre_tokenizer.escapes_spaces

    # Texts to tokens ------------------------------------------------------------------------------

    def tokenizer(self) -> ov.Model:
        text = opset.parameter(ov.PartialShape(["?"]), ov.Type.string)
        ragged = _ragged(opset.string_tensor_unpack(text).outputs())
        ragged = self._with_special_apart(ragged)
        texts, pieces = ragged[:2], ragged[2:]
        for pattern, replacement in self._replacements():
            pieces = _make("RegexNormalization", [*pieces, _text(pattern), _text(replacement)])
        match self._vocabulary.kind:
            case "bert":
                ids = self._word_pieces(texts, pieces)
            case "t5":
                ids = self._unigram(texts, pieces)
            case _:
                ids = self._merged(texts, pieces)
        return self._dense(ids, text)

    def _with_special_apart(self, ragged: _Outputs) -> _Outputs:
        """Cut special tokens out of the text; the last output then says which pieces they are."""
        texts = sorted((self._vocabulary.tokens[i] for i in self._special), reverse=True)
        if not texts:
            return ragged
        swallowing_after = self._swallowing_after()
        mask = self._masks_before()
        kept = [each for each in texts if each not in swallowing_after | mask]
        swallowing = [each for each in texts if each in swallowing_after]
        patterns = [b"(?:\\s*)(" + _quoted(each) + b")" for each in mask]
        if swallowing:
            patterns.append(b"(" + b"|".join(map(_quoted, swallowing)) + b")(?:\\s*)")
        if kept:
            patterns.append(b"(" + b"|".join(map(_quoted, kept)) + b")")
        return _make("SpecialTokensSplit", [*ragged, _text(b"|".join(patterns))])

    def _masks_before(self) -> set[bytes]:
        """Return the mask if it swallows the spaces before it."""
        vocabulary = self._vocabulary
        texts = {vocabulary.tokens[i] for i in self._special}
        return {b"<mask>", b"[MASK]"} & texts if vocabulary.mask_strips else set()

    def _swallowing_after(self) -> set[bytes]:
        """Return the special tokens that swallow the spaces after them."""
        if not self._vocabulary.strips_after:
            return set()
        texts = {self._vocabulary.tokens[i] for i in self._special}
        return texts - {b"<unk>", b"<s>", b"<|endoftext|>"}

    def _replacements(self) -> list[tuple[str, str]]:
        """Return what is replaced before the text is cut into words."""
        vocabulary = self._vocabulary
        if vocabulary.kind == "bert":
            return [(_CONTROLS, "")]
        found: list[tuple[str, str]] = []
        if vocabulary.normalization:
            return found  # the table does it all
        if vocabulary.merges_spaces:
            found += [("^ +| +$", ""), (" +", " ")]
        if self._is_escaped:
            if vocabulary.adds_space:
                found.append((r"^([\s\S])", _META_SPACE + "$1"))
            found.append((" ", _META_SPACE))
        return found

    def _merged(self, texts: _Outputs, pieces: _Outputs) -> _Outputs:
        vocabulary = self._vocabulary
        ragged = [*texts, *pieces]
        for pattern in self._pre_tokenizer.patterns:
            ragged = _split(ragged, pattern, "isolate")
        has_bytes = bool((vocabulary.types == TokenType.BYTE).any())
        if has_bytes:
            # The operation takes the text <0x0A> for the token of a byte unless it is cut.
            ragged = _split(ragged, r"<(?=0x[0-9A-Fa-f]{2}>)", "mergedwithprevious")
        merges = (
            _merges_of_scores(vocabulary)
            if vocabulary.kind == "llama"
            else _pairs(vocabulary.merges, is_byte_level=self._is_byte_level)
        )
        words = self._words(merges)
        # A pair that makes no token is none: the operation fails at every text if it has one.
        known = set(words)
        merges = [each for each in merges if known.issuperset((*each, each[0] + each[1]))]
        whole: dict[int, bytes] = {}
        if self._pre_tokenizer.takes_whole_words:
            whole = {i: words[i] for i in self._not_merged(words, merges)}
        elif self._pre_tokenizer.takes_lines:
            whole = {
                i: token
                for i, token in enumerate(vocabulary.tokens)
                if token and not words[i] and not token.strip(b"\n")
            }
        if whole:
            either = b"|".join(map(_quoted, whole.values()))
            marked = [*ragged[2:], _text(rb"\A(?:" + either + rb")\z"), _text(_WHOLE_WORD + "$0")]
            ragged = [*ragged[:2], *_make("RegexNormalization", marked)]
        return self._tokens(_without_skips(ragged), words, merges, whole)

    def _tokens(
        self,
        ragged: _Outputs,
        words: Sequence[bytes],
        merges: Sequence[tuple[bytes, bytes]],
        whole: Mapping[int, bytes],
    ) -> _Outputs:
        """Merge the letters of words.

        Args:
            whole: texts of tokens that marked words are.
        """
        vocabulary = self._vocabulary
        has_bytes = bool((vocabulary.types == TokenType.BYTE).any())
        added = [vocabulary.tokens[i] for i in self._special]
        added += [_WHOLE_WORD.encode() + word for word in whole.values()]
        return _make(
            "BPETokenizer",
            [
                *ragged,
                *_strings(words),
                *_strings([left for left, _ in merges]),
                *_strings([right for _, right in merges]),
                *_strings(added),
                _numbers([*self._special, *whole]),
            ],
            unk_token=vocabulary.text(vocabulary.unknown) if has_bytes else "",
            fuse_unk=has_bytes,
            suffix_indicator="",
            end_suffix="",
            byte_fallback=has_bytes,
            cache_capacity=_REMEMBERED_WORDS,
        )

    def _not_merged(
        self, words: Sequence[bytes], merges: Sequence[tuple[bytes, bytes]]
    ) -> list[int]:
        """Return the tokens that are not what merging their letters leads to.

        The operation finds those only by merging, and a word that is such a token is that token.
        """
        text = opset.parameter(ov.PartialShape(["?"]), ov.Type.string)
        ragged = _ragged(opset.string_tensor_unpack(text).outputs())
        outputs = [opset.result(each) for each in self._tokens(ragged, words, merges, {})[:3]]
        model = ov.Core().compile_model(ov.Model(outputs, [text], "merges"), "CPU")
        special = set(self._special)
        usual: dict[int, str] = {}
        for i, word in enumerate(words):
            letters = word.decode("utf-8", "ignore")
            if letters.encode() == word != b"" and i not in special:
                usual[i] = letters
        found = model(list(usual.values()))
        begins, ends, ids = (found[at] for at in range(3))
        return [
            token
            for token, begin, end in zip(usual, begins.tolist(), ends.tolist(), strict=True)
            if end - begin != 1 or ids[begin] != token
        ]

    def _words(self, merges: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
        """Return the tokens that texts can have; the others are empty.

        The operation takes a word that is a token as it is, also where no merges lead to it.
        """
        vocabulary = self._vocabulary
        if self._is_byte_level:
            # A text never has a token that is not written in the alphabet of bytes.
            words = [_raw(token) or b"" for token in vocabulary.tokens]
        else:
            words = list(vocabulary.tokens)
        if not self._pre_tokenizer.takes_whole_words:
            made = {left + right for left, right in merges}
            types = vocabulary.types.tolist()
            for i, word in enumerate(words):
                if word not in made and types[i] != TokenType.BYTE:
                    is_letter = len(word) == 1 or (
                        not self._is_byte_level and len(word.decode("utf-8", "replace")) == 1
                    )
                    if not is_letter:
                        words[i] = b""
        for i in self._special:
            words[i] = vocabulary.tokens[i]
        return words

    def _word_pieces(self, texts: _Outputs, pieces: _Outputs) -> _Outputs:
        vocabulary = self._vocabulary
        if vocabulary.strips_accents:
            pieces = _normalized(pieces, normalization_form="nfd")
            pieces = _make("RegexNormalization", [*pieces, _text(r"\p{Mn}"), _text("")])
        if vocabulary.lowercases:
            known = set(b"".join(vocabulary.tokens).decode(errors="ignore"))
            kept = [letter for letter in _FOLDED if letter in known]
            lost = "".join(letter for letter in _FOLDED if letter not in known)
            # Only what the vocabulary has gets a step of its own, since each step takes time.
            steps = [(letter, chr(_PRIVATE + n)) for n, letter in enumerate(kept)]
            for letter, other in [(f"[{lost}]", _NO_LETTER), *steps]:
                pieces = _make("RegexNormalization", [*pieces, _text(letter), _text(other)])
            pieces = _normalized(pieces, normalization_form="identity", case_fold=True)
            for letter, other in steps:
                pieces = _make("RegexNormalization", [*pieces, _text(other), _text(letter)])
        ragged = [*texts, *pieces]
        for pattern, behaviour in ((r"\s+", "remove"), (_ALONE, "isolate")):
            ragged = _split(ragged, pattern, behaviour)
        return _make(
            "WordpieceTokenizer",
            [
                *_without_skips(ragged),
                *_strings(word_pieces(vocabulary)),
                opset.constant(vocabulary.unknown or 0, ov.Type.i32).output(0),
            ],
            suffix_indicator="##",
            max_bytes_per_word=100,
        )

    def _unigram(self, texts: _Outputs, pieces: _Outputs) -> _Outputs:
        vocabulary = self._vocabulary
        if vocabulary.normalization:
            pieces = _make(
                "CharsMapNormalization",
                [*pieces, _text(vocabulary.normalization)],
                normalization_form="",
                add_dummy_prefix=vocabulary.adds_space,
                remove_extra_whitespaces=vocabulary.merges_spaces,
                escape_whitespaces=True,
                case_fold=False,
                nmt=False,
            )
        # Tokens of the user's count as if they were certain, control tokens never occur in text.
        scores = vocabulary.scores.copy()
        scores[vocabulary.types == TokenType.USER_DEFINED] = 0.0
        return _make(
            "UnigramTokenizer",
            [
                *_without_skips([*texts, *pieces]),
                *_strings(vocabulary.tokens),
                opset.constant(scores, ov.Type.f32).output(0),
            ],
            byte_fallback=bool((vocabulary.types == TokenType.BYTE).any()),
            unk_token_id=vocabulary.unknown or 0,
            fuse_unk=True,
        )

    def _dense(self, ids: _Outputs, text: Any) -> ov.Model:
        """Return the model, with the tokens that each text begins and ends with."""
        vocabulary = self._vocabulary
        before, after = self._around()
        parts: _Outputs = []
        for tokens in (before, None, after):
            if tokens is None:
                # openvino-genai 2026.4 switches special tokens on and off only after this
                # operation; without it `add_special_tokens=False` leaves nothing of a text.
                parts += _make(
                    "Truncate",
                    [*ids, _scalar(_LONGEST).output(0), _text("right"), _text("longest_first")],
                )
            elif tokens:
                parts += [
                    opset.constant(0, ov.Type.i32).output(0),
                    opset.constant(len(tokens), ov.Type.i32).output(0),
                    _numbers(tokens),
                ]
        parts.append(_numbers([0] * (len(parts) // 3)))
        begins, ends, values = _make("CombineSegments", parts)[:3]
        longest = opset.reduce_max(
            opset.subtract(ends, begins), opset.constant(0, ov.Type.i32)
        ).output(0)
        pad = vocabulary.padding or 0
        dense = _make(
            "RaggedToDense",
            [begins, ends, values, longest, opset.constant(pad, ov.Type.i32).output(0)],
            pad_right=vocabulary.kind == "bert",
            pad_max_length=False,
        )
        outputs = []
        for output, name in zip(dense, ("input_ids", "attention_mask"), strict=False):
            result = opset.result(opset.convert(output, "i64"))
            result.get_output_tensor(0).set_names({name})
            outputs.append(result)
        return ov.Model(outputs, [text], "tokenizer")

    def _around(self) -> tuple[list[int], list[int]]:
        vocabulary, pre_tokenizer = self._vocabulary, self._pre_tokenizer
        adds_bos = vocabulary.adds_bos
        if adds_bos is None or pre_tokenizer.escapes_spaces:
            # Files of Gemma 4 say that it adds none, and it needs one.
            adds_bos = pre_tokenizer.adds_bos or bool(adds_bos)
        adds_separator = vocabulary.adds_separator
        if adds_separator is None:
            adds_separator = pre_tokenizer.adds_separator
        before = [vocabulary.bos] if adds_bos else []
        after = [vocabulary.separator] if adds_separator else []
        if vocabulary.adds_eos:
            after.append(vocabulary.eos)
        return _known(before), _known(after)

    # Tokens to texts ------------------------------------------------------------------------------

    def detokenizer(self) -> ov.Model:
        vocabulary = self._vocabulary
        ids = opset.parameter(ov.PartialShape(["?", "?"]), ov.Type.i64)
        hidden = vocabulary.hidden or [len(vocabulary.tokens)]  # the list must not be empty
        # The library puts another end here to show special tokens.
        shown = opset.slice(
            opset.constant(np.array(hidden, np.int32)),
            opset.constant(np.array([0], np.int32)),
            opset.constant(np.array([np.iinfo(np.int32).max], np.int32)),
            opset.constant(np.array([1], np.int32)),
        )
        ragged = _make(
            "VocabDecoder",
            [opset.convert(ids, "i32").output(0), *_strings(self._decoded()), shown.output(0)],
        )
        begins, ends = _make("FuzeRagged", ragged[:4])
        pieces = [begins, ends, ragged[4]]
        if vocabulary.kind in ("llama", "t5", "bert") and (
            vocabulary.adds_space or vocabulary.kind == "bert"
        ):
            pieces = _make("RegexNormalization", [*pieces, _text("^ "), _text("")])
        pieces = _make("UTF8Validate", pieces, replace_mode=True)
        text = opset.string_tensor_pack(*pieces)
        result = opset.result(text)
        result.get_output_tensor(0).set_names({"string_output"})
        return ov.Model([result], [ids], "detokenizer")

    def _decoded(self) -> list[bytes]:
        """Return the bytes that each token adds to a text."""
        vocabulary = self._vocabulary
        space = _META_SPACE.encode()
        if self._is_byte_level:
            decoded = [
                token if raw is None else raw
                for token in vocabulary.tokens
                for raw in [_raw(token)]
            ]
        elif self._is_escaped or vocabulary.kind == "bert":
            decoded = [token.replace(space, b" ") for token in vocabulary.tokens]
        else:
            decoded = list(vocabulary.tokens)
        # SentencePiece writes a byte that no token has as a token of its own, ``<0x0A>``.
        for i in np.flatnonzero(vocabulary.types == TokenType.BYTE).tolist():
            found = re.fullmatch(rb"<0x([0-9A-Fa-f]{2})>", vocabulary.tokens[i])
            if found is not None:
                decoded[i] = bytes([int(found[1], 16)])
        for i in self._special:
            decoded[i] = vocabulary.tokens[i]
        return decoded


# Vocabularies -------------------------------------------------------------------------------------


def _alphabet() -> dict[int, int]:
    """Return GPT-2's alphabet: the byte for each of its 256 letters.

    Printable bytes of Latin-1 are themselves, and the others the letters from 256 on.
    """
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in own]
    return {**{byte: byte for byte in own}, **{256 + i: byte for i, byte in enumerate(others)}}


_BYTE_OF: Final = _alphabet()
_LETTERS: Final = frozenset(map(chr, _BYTE_OF))


def _raw(text: bytes) -> bytes | None:
    """Return the bytes of a text in GPT-2's alphabet; None if it has another letter."""
    letters = text.decode("utf-8", "surrogateescape")
    if _LETTERS.issuperset(letters):
        return letters.translate(_BYTE_OF).encode("latin-1")
    return None


def _pairs(merges: Sequence[bytes], *, is_byte_level: bool) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    for merge in merges:
        # The first part may be a space where texts are not escaped.
        cut = merge.find(b" ", 1)
        if cut > 0:
            left, right = merge[:cut], merge[cut + 1 :]
            if is_byte_level:
                left, right = _raw(left) or b"", _raw(right) or b""
            if left and right:
                found.append((left, right))
    return found


def _merges_of_scores(vocabulary: Vocabulary) -> list[tuple[bytes, bytes]]:
    """Return SentencePiece's merges: the pair that becomes the token of the best score first."""
    types = vocabulary.types
    usable = np.isin(types, (TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.UNUSED))
    texts = [token.decode("utf-8", "surrogateescape") for token in vocabulary.tokens]
    known = {texts[i] for i in np.flatnonzero(usable).tolist()}
    found: list[tuple[bytes, bytes]] = []
    normal = np.flatnonzero(types == TokenType.NORMAL)
    order = normal[np.argsort(-vocabulary.scores[normal], kind="stable")]
    for i in order.tolist():
        text = texts[i]
        for cut in range(1, len(text)):
            left, right = text[:cut], text[cut:]
            if left in known and right in known:
                found.append(
                    (
                        left.encode("utf-8", "surrogateescape"),
                        right.encode("utf-8", "surrogateescape"),
                    )
                )
    return found


def word_pieces(vocabulary: Vocabulary) -> list[bytes]:
    """Return the tokens as WordPiece writes them: ``##`` in front of those within a word."""
    space = _META_SPACE.encode()
    special = set(vocabulary.special)
    return [
        token if i in special else token[len(space) :] if token.startswith(space) else b"##" + token
        for i, token in enumerate(vocabulary.tokens)
    ]


def _known(tokens: Iterable[int | None]) -> list[int]:
    return [each for each in tokens if each is not None]


# Operations ---------------------------------------------------------------------------------------


def _make(name: str, inputs: _Outputs, **attributes: Any) -> _Outputs:
    outputs: _Outputs = _get_factory().create(name, inputs, attributes).outputs()
    return outputs


def _split(ragged: _Outputs, pattern: str, behaviour: str) -> _Outputs:
    """Cut pieces at the matches of a pattern."""
    return _make(
        "RegexSplit",
        [*ragged, _text(pattern)],
        behaviour=behaviour,
        invert=False,
        max_splits=-1,
    )


def _normalized(pieces: _Outputs, **attributes: Any) -> _Outputs:
    return _make("CharsMapNormalization", pieces, **attributes, remove_extra_whitespaces=False)


def _ragged(texts: _Outputs) -> _Outputs:
    """Return texts, of one piece each, as ragged ones."""
    count = opset.gather(opset.shape_of(texts[0], "i32"), _scalar(0), _scalar(0))
    one = _scalar(1)
    begins = opset.range(_scalar(0), count, one, "i32")
    ends = opset.range(one, opset.add(count, one), one, "i32")
    return [begins.output(0), ends.output(0), *texts]


def _without_skips(ragged: _Outputs) -> _Outputs:
    return ragged[:5]


def _scalar(value: int) -> Any:
    return opset.constant(value, ov.Type.i32)


def _numbers(values: Sequence[int]) -> Any:
    return opset.constant(np.array(values, np.int32)).output(0)


def _text(value: str | bytes) -> Any:
    data = value.encode() if isinstance(value, str) else value
    return opset.constant(np.frombuffer(data, np.uint8)).output(0)


def _strings(texts: Sequence[bytes]) -> _Outputs:
    """Return texts as three constants: first and last byte of each, and the bytes."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int32, len(texts)), dtype=np.int32)
    begins = np.concatenate((np.zeros(1, np.int32), ends[:-1])) if len(ends) else ends
    data = np.frombuffer(b"".join(texts), np.uint8)
    return [opset.constant(each).output(0) for each in (begins, ends, data)]


def _quoted(text: bytes) -> bytes:
    return _META.sub(rb"\\\g<0>", text)
