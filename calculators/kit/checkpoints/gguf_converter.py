"""Conversion of a GGUF file to the directory of an OpenVINO model. Runs in a process of its own.

The directory has everything that a model of OpenVINO's hub has, so engine, prompts and other
programs read it as any other: the model, tokenizer and detokenizer, the chat templates,
``config.json`` and ``generation_config.json``.

A model that ranks reads a query and a document as one sequence. OpenVINO's tokenizers know no
pairs, but the package `tokenizers` does: for such a model the directory also has the
``tokenizer.json`` that it reads. WordPiece, Unigram and byte-level BPE are written.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov

from calculators.kit.checkpoints.checks import SAMPLING, check_file
from calculators.kit.checkpoints.encoder import build_encoder
from calculators.kit.checkpoints.families import ENCODERS, pooling_of
from calculators.kit.checkpoints.family_builders import build_model
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.packed import OffsetForm
from calculators.kit.checkpoints.tokenizer_graph import word_pieces, write_tokenizer
from calculators.kit.checkpoints.vocabulary import (
    INFILL_IDS,
    PreTokenizer,
    Vocabulary,
    pre_tokenizer_of,
    read_vocabulary,
)
from calculators.kit.checkpoints.weights import DryScratch, WeightScratch
from calculators.kit.child_process.answering_process import Report
from calculators.kit.child_process.messages import LoadingPhase
from graphrt_base.errors import ResourceError

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


_MODEL: Final = "openvino_model"
#: The part of a conversion, by time, in which the constants are made, and the share of it after
#: which progress is reported again.
_BUILDING: Final = (0.1, 0.7)
_CHECKED: Final = 0.02
_NOTICED: Final = 0.05
_BYTE: Final = 8
#: The class of transformers by whose name the embeddings task knows an encoder.
_ENCODER_CLASS: Final = "BertModel"
_RANKING_CLASS: Final = "BertForSequenceClassification"
_POOLING: Final[Mapping[str, str]] = {
    "CLS": "pooling_mode_cls_token",
    "MEAN": "pooling_mode_mean_tokens",
    "LAST": "pooling_mode_lasttoken",
}


def convert(
    gguf: Path,
    directory: Path,
    form: OffsetForm,
    size: int,
    report: Report,
    *,
    batches: bool = True,
) -> None:
    """Convert a file, or all the files of a split model, into an empty folder.

    Args:
        form: of weights with offsets.
        size: bytes that the model's constants will take, for the progress.
        batches: for continuous batching; see `read_decoder`.

    Raises:
        ResourceError: the file is damaged, or of a model that cannot be run.
        OSError: the disk fails.
    """
    file = GgufFile(gguf)
    decoder, pooling = check_file(file, batches=batches), pooling_of(file)
    vocabulary = read_vocabulary(file.metadata, file.name)
    build = build_encoder if pooling else build_model
    report(LoadingPhase("checking the GGUF file", 0.0, _CHECKED))
    # A tensor that is missing or wrong is found before anything takes time.
    build(file, decoder, form, DryScratch())
    report(LoadingPhase("converting the tokenizer of the GGUF file", _CHECKED, _BUILDING[0]))
    write_tokenizer(vocabulary, directory, file.name)
    # The constants are written as they are made, into the file of the model.
    scratch = _ReportingScratch(directory / f"{_MODEL}.bin", size, report)
    try:
        build(file, decoder, form, scratch)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise ResourceError(
            f'"{file.name}": the disk is full where the converted model is written; its weights '
            f"take {size / 1e6:.0f} MB"
        ) from None
    report(LoadingPhase("writing the converted model", _BUILDING[1], 1.0))
    # Once more without numbers: the library writes the graph, and would write the constants with
    # it.
    dry = DryScratch(scratch.halved)
    drawn = build(file, decoder, form, dry)
    _write_graph(drawn, dry, scratch, directory / f"{_MODEL}.xml")
    config = _config(file, vocabulary)
    if pooling == "RANK":
        config["architectures"], config["id2label"] = [_RANKING_CLASS], {"0": "LABEL_0"}
        if decoder.architecture in ENCODERS:
            write_tokenizer_json(vocabulary, directory, file.name)
    elif pooling:
        _write_modules(directory, pooling)
        config["architectures"] = [_ENCODER_CLASS]
    else:
        _write_json(directory / "generation_config.json", _generation_config(file, vocabulary))
    _write_json(directory / "config.json", config)


class _ReportingScratch(WeightScratch):
    """Reports the progress of the constants that are made in it."""

    def __init__(self, path: Path, size: int, report: Report) -> None:
        super().__init__(path)
        self._expected = max(1, size)
        self._made = 0
        self._next = 0.0
        self._report = report

    def empty(self, shape: Any, dtype: Any) -> Any:
        share = min(1.0, self._made / self._expected)
        if share >= self._next:
            begin, end = _BUILDING
            self._next = share + _NOTICED
            here, there = (begin + (end - begin) * min(1.0, each) for each in (share, self._next))
            self._report(LoadingPhase("converting the weights of the GGUF file", here, there))
        found = super().empty(shape, dtype)
        self._made += found.nbytes
        return found


def _config(file: GgufFile, vocabulary: Vocabulary) -> dict[str, Any]:
    """Return ``config.json``, by the names of transformers."""
    name, values = file.architecture, file.metadata
    heads = values.integer(f"{name}.attention.head_count") if _is_number(file, "head_count") else 0
    kv_heads = (
        values.integer(f"{name}.attention.head_count_kv", heads)
        if _is_number(file, "head_count_kv")
        else 0
    )
    width = values.integer(f"{name}.embedding_length", 0) or 0
    size = values.integer(f"{name}.attention.key_length", 0) or (width // heads if heads else 0)
    found = {
        "model_type": name.replace("-", "_"),
        "max_position_embeddings": values.integer(f"{name}.context_length", 0),
        "vocab_size": len(vocabulary.tokens),
        "num_hidden_layers": values.integer(f"{name}.block_count", 0),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "hidden_size": width,
        "head_dim": size,
    }
    return {
        **{key: value for key, value in found.items() if value},
        **_token_ids(vocabulary),
        **({INFILL_IDS: dict(vocabulary.infill)} if vocabulary.infill else {}),
    }


def _write_modules(directory: Path, pooling: str) -> None:
    """Write what sentence-transformers says of an embedding model: how tokens become a vector."""
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(
            (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
        )
    ]
    (directory / "modules.json").write_text(json.dumps(modules, indent=2) + "\n", "utf-8")
    folder = directory / "1_Pooling"
    folder.mkdir()
    _write_json(folder / "config.json", {name: way == pooling for way, name in _POOLING.items()})


def _is_number(file: GgufFile, key: str) -> bool:
    return file.metadata.length(f"{file.architecture}.attention.{key}") is None


def _generation_config(file: GgufFile, vocabulary: Vocabulary) -> dict[str, Any]:
    sampling = {
        name: file.metadata.number(key) for key, name in SAMPLING.items() if key in file.metadata
    }
    if sampling.get("top_k") is not None:
        sampling["top_k"] = int(sampling["top_k"] or 0)
    return {**_token_ids(vocabulary), **sampling}


def _token_ids(vocabulary: Vocabulary) -> dict[str, Any]:
    found = {
        "bos_token_id": vocabulary.bos,
        "eos_token_id": list(vocabulary.ends) or None,
        "pad_token_id": vocabulary.padding,
    }
    return {key: value for key, value in found.items() if value is not None}


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _write_graph(model: ov.Model, dry: WeightScratch, scratch: WeightScratch, path: Path) -> None:
    """Write the graph of a model whose constants lie in a scratch's file.

    The library would write them once more, and have them all in memory for that.

    Args:
        model: as it is built with ``dry``, whose arrays have no numbers.
        scratch: has the same arrays in the same order.

    Raises:
        OSError: the disk is full.
    """
    arrays = dict(zip(dry.constants, scratch.constants.values(), strict=True))
    arrays |= {name: value for name, value in _small_constants(model) if name not in dry.constants}
    ov.serialize(model, path, os.devnull)
    tree = ElementTree.parse(path)
    for layer in tree.iter("layer"):
        data = layer.find("data")
        if layer.get("type") == "Const" and data is not None:
            array = arrays[layer.get("name", "")]
            assert array.nbytes == int(data.get("size", -1)), layer.get("name")
            data.set("offset", str(scratch.place(array)))
    tree.write(path, encoding="utf-8", xml_declaration=True)


def _small_constants(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and numbers of the constants that NumPy has types for, in loops too."""
    for node in model.get_ordered_ops():
        if node.get_type_name() == "Constant":
            if node.get_element_type().bitwidth >= _BYTE:
                yield node.get_friendly_name(), np.ascontiguousarray(node.data)
        elif node.get_type_name() in ("Loop", "TensorIterator"):
            yield from _small_constants(node.get_function())
