"""Conversion of a GGUF file to the directory of an OpenVINO model. Runs in a process of its own.

The directory has everything that a model of OpenVINO's hub has, so engine, prompts and other
programs read it as any other: the model, tokenizer and detokenizer, the chat templates,
``config.json`` and ``generation_config.json``.
"""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov

from calculators.kit.checkpoints.decoder import check_file
from calculators.kit.checkpoints.encoder import build_encoder
from calculators.kit.checkpoints.families import ENCODERS, pooling_of
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.gguf_vocabulary import Vocabulary, read_vocabulary
from calculators.kit.checkpoints.models import build_model
from calculators.kit.checkpoints.packed import Form
from calculators.kit.checkpoints.tokenizer_graph import write_tokenizer
from calculators.kit.checkpoints.tokenizer_json import write_tokenizer_json
from calculators.kit.checkpoints.weights import DryScratch, Scratch
from calculators.kit.child_process.answering_process import Report
from calculators.kit.child_process.messages import Loading

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
#: Defaults of requests by GGUF's name, and by that of ``generation_config.json``.
_SAMPLING: Final[Mapping[str, str]] = {
    "general.sampling.temp": "temperature",
    "general.sampling.top_k": "top_k",
    "general.sampling.top_p": "top_p",
    "general.sampling.min_p": "min_p",
    "general.sampling.penalty_repeat": "repetition_penalty",
}


def convert(gguf: Path, directory: Path, form: Form, size: int, report: Report) -> None:
    """Convert a file, or all the files of a split model, into an empty folder.

    Args:
        form: of weights with offsets.
        size: bytes that the model's constants will take, for the progress.

    Raises:
        ResourceError: the file is damaged, or of a model that cannot be run.
        OSError: the disk fails.
    """
    file = GgufFile(gguf)
    decoder, pooling = check_file(file), pooling_of(file)
    vocabulary = read_vocabulary(file.metadata, file.name)
    build = build_encoder if pooling else build_model
    report(Loading("checking the GGUF file", 0.0, _CHECKED))
    # A tensor that is missing or wrong is found before anything takes time.
    dry = DryScratch()
    drawn = build(file, decoder, form, dry)
    report(Loading("converting the tokenizer of the GGUF file", _CHECKED, _BUILDING[0]))
    write_tokenizer(vocabulary, directory, file.name)
    # The constants are written as they are made, into the file of the model.
    scratch = _ReportingScratch(directory / f"{_MODEL}.bin", size, report)
    build(file, decoder, form, scratch)
    report(Loading("writing the converted model", _BUILDING[1], 1.0))
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


class _ReportingScratch(Scratch):
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
            self._report(Loading("converting the weights of the GGUF file", here, there))
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
        name: file.metadata.number(key) for key, name in _SAMPLING.items() if key in file.metadata
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


def _write_graph(model: ov.Model, dry: Scratch, scratch: Scratch, path: Path) -> None:
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
