"""``tokenizer.json`` of a vocabulary whose model takes pairs of texts.

WordPiece, Unigram and byte-level BPE are written.

OpenVINO's tokenizers know no pairs, and a model that ranks reads a query and a document as one
sequence. The package `tokenizers` knows them; it reads this file.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

from calculators.kit.checkpoints.gguf_vocabulary import Vocabulary
from calculators.kit.checkpoints.pretokenizers import PreTokenizer, pre_tokenizer_of
from calculators.kit.checkpoints.tokenizer_graph import word_pieces
from graph_runtime import ResourceError

_META_SPACE: Final = "▁"
#: Characters of a word; longer ones are unknown.
_LONGEST_WORD: Final = 100


def write_tokenizer_json(vocabulary: Vocabulary, directory: Path, file: str) -> None:
    """Write the file.

    Args:
        file: the name of the vocabulary's file, for errors.

    Raises:
        ResourceError: the vocabulary is of another kind.
    """
    match vocabulary.kind:
        case "bert":
            parts = _word_piece(vocabulary)
        case "t5":
            parts = _unigram(vocabulary)
        case "gpt2":
            parts = _byte_level(vocabulary, pre_tokenizer_of(vocabulary, file))
        case other:
            raise ResourceError(
                f'"{file}" ranks texts with a tokenizer of the kind "{other}", and pairs of texts '
                "can be read by bert, t5 and gpt2; serve such a model in OpenVINO's form"
            )
    added = [
        {
            "id": i,
            "content": vocabulary.text(i),
            "single_word": False,
            "lstrip": i == vocabulary.mask and vocabulary.kind != "bert",
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i in vocabulary.special
    ]
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "post_processor": _pairs(vocabulary),
        **parts,
    }
    text = json.dumps(content, ensure_ascii=False)
    (directory / "tokenizer.json").write_text(text, encoding="utf-8")


def _word_piece(vocabulary: Vocabulary) -> dict[str, Any]:
    pieces = [piece.decode("utf-8", "replace") for piece in word_pieces(vocabulary)]
    return {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": vocabulary.strips_accents,
            "lowercase": vocabulary.lowercases,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": vocabulary.text(vocabulary.unknown),
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": _LONGEST_WORD,
            "vocab": {piece: i for i, piece in enumerate(pieces)},
        },
    }


def _unigram(vocabulary: Vocabulary) -> dict[str, Any]:
    normalizers: list[dict[str, Any]] = []
    if vocabulary.normalization:
        table = base64.b64encode(vocabulary.normalization).decode()
        normalizers.append({"type": "Precompiled", "precompiled_charsmap": table})
    if vocabulary.merges_spaces:
        normalizers += [
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ]
    scheme = "always" if vocabulary.adds_space else "never"
    space = {
        "type": "Metaspace",
        "replacement": _META_SPACE,
        "prepend_scheme": scheme,
        "split": False,
    }
    pieces = [
        [vocabulary.text(i), float(score)] for i, score in enumerate(vocabulary.scores.tolist())
    ]
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        "pre_tokenizer": space,
        "decoder": space,
        "model": {
            "type": "Unigram",
            "unk_id": vocabulary.unknown,
            "vocab": pieces,
            "byte_fallback": False,
        },
    }


def _byte_level(vocabulary: Vocabulary, pre_tokenizer: PreTokenizer) -> dict[str, Any]:
    cuts: list[dict[str, Any]] = [
        # The package knows a script only by its name alone.
        {
            "type": "Split",
            "pattern": {"Regex": pattern.replace("sc:", "")},
            "behavior": "Isolated",
            "invert": False,
        }
        for pattern in pre_tokenizer.patterns
    ]
    letters = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    return {
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*cuts, letters]},
        "decoder": letters,
        "model": {
            "type": "BPE",
            "unk_token": None,
            "byte_fallback": False,
            "ignore_merges": pre_tokenizer.takes_whole_words,
            "vocab": {vocabulary.text(i): i for i in range(len(vocabulary.tokens))},
            "merges": [merge.decode("utf-8", "replace") for merge in vocabulary.merges],
        },
    }


def _pairs(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the template of a text, and of a pair: ``[CLS] a [SEP] b [SEP]``.

    RoBERTa's kin have two separators between the texts, ``<s> a </s></s> b </s>``.
    """
    begin = [vocabulary.bos] if vocabulary.bos is not None else []
    end = vocabulary.separator if vocabulary.separator is not None else vocabulary.eos
    ends = [end] if end is not None else []
    is_bert = vocabulary.kind == "bert"
    has_one_separator = is_bert or vocabulary.text(vocabulary.bos) == "[CLS]"

    def special(tokens: list[int], segment: int) -> list[dict[str, Any]]:
        return [
            {"SpecialToken": {"id": vocabulary.text(each), "type_id": segment}} for each in tokens
        ]

    def text(name: str, segment: int) -> list[dict[str, Any]]:
        return [{"Sequence": {"id": name, "type_id": segment}}]

    single = [*special(begin, 0), *text("A", 0), *special(ends, 0)]
    second = 1 if is_bert else 0
    between = [] if has_one_separator else special(ends, 0)
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *between, *text("B", second), *special(ends, second)],
        "special_tokens": {
            vocabulary.text(each): {
                "id": vocabulary.text(each),
                "ids": [each],
                "tokens": [vocabulary.text(each)],
            }
            for each in {*begin, *ends}
        },
    }
