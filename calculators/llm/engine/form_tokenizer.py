"""`FormTokenizer`: a tokenizer with which no special token is text, for pipelines with grammars.

openvino-genai (2026.4) gives the library of grammars one end token, and the texts of all other
tokens as they are in the detokenizer. So ``<|im_start|>`` fits wherever a form allows its letters,
and a second end token ends the answer there (`tests/upstream/test_special_tokens.py`). In the
detokenizer that is made here, a special token is one letter of Unicode's last private plane
instead, which no rule of ours allows. A form can still ask for the token: by that letter. Tokens
that no form asks for have no text at all, and are never allowed; nor have those with a byte that
could spell such a letter.

Pipelines use this detokenizer for grammars and stop strings only; text is made of tokens elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino
import openvino_genai as genai

from calculators.llm.grammars.grammar import FIRST, SpecialLetters

_TOKENIZER: Final = "openvino_tokenizer"
_DETOKENIZER: Final = "openvino_detokenizer"
#: Texts of special tokens that no model writes.
_RESERVED: Final = re.compile(rb"reserved|unused|extra_?\d|SPECIAL_\d|placeholder|_pad\b|mask")
#: Letters of special tokens: each costs time when a grammar is compiled.
_MOST: Final = 64
#: The byte with which letters of Unicode's last plane begin in UTF-8, and no others.
_LAST_PLANE: Final = b"\xf4"
#: Constants begin at multiples of this.
_ALIGNMENT: Final = 64


@dataclass(frozen=True, slots=True)
class FormTokenizer:
    """A tokenizer of openvino-genai, and the letters of its special tokens.

    Attributes:
        size: the number of tokens.
        letters: for rules; without the token that the library knows to end an answer.
    """

    tokenizer: Any
    size: int
    letters: SpecialLetters


class DetokenizerFiles:
    """The files of a model's detokenizer, with other texts for special tokens."""

    def __init__(self, directory: Path) -> None:
        """Read the files.

        Raises:
            KeyError: the detokenizer is of another kind, without a list of tokens.
        """
        self._tree = ElementTree.parse(directory / f"{_DETOKENIZER}.xml").getroot()
        self._weights = bytearray((directory / f"{_DETOKENIZER}.bin").read_bytes())
        layers = {layer.get("id"): layer for layer in self._tree.iterfind("layers/layer")}
        decoders = [each for each in layers.values() if each.get("type") == "VocabDecoder"]
        if len(decoders) != 1:
            raise KeyError("VocabDecoder")
        [self._decoder] = decoders
        sources: dict[tuple[str | None, str | None], ElementTree.Element] = {
            (edge.get("to-layer"), edge.get("to-port")): layers[edge.get("from-layer")]
            for edge in self._tree.iterfind("edges/edge")
        }
        self._inputs: dict[int, ElementTree.Element] = {}
        for port in range(1, 5):
            source = sources.get((self._decoder.get("id"), str(port)))
            if source is not None and source.get("type") == "Slice":
                # Of the special tokens, those that are left out as long as the library wants it.
                source = sources.get((source.get("id"), "0"))
            if source is not None:
                self._inputs[port] = source
        begins, ends = self._numbers(1), self._numbers(2)
        letters = self._bytes(3)
        self.tokens = [
            letters[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]

    def special(self) -> list[int]:
        """Return the tokens that are left out of texts."""
        if 4 in self._inputs:
            return [each for each in self._numbers(4).tolist() if each < len(self.tokens)]
        data = self._decoder.find("data")  # as older versions have it
        listed = "" if data is None else data.get("skip_tokens", "")
        return [int(each) for each in listed.split(",") if each.strip()]

    def with_tokens(self, tokens: Sequence[bytes]) -> tuple[str, Any]:
        """Return the detokenizer with other texts, as XML and weights."""
        ends = np.cumsum([len(token) for token in tokens]).astype(np.int32)
        begins = np.concatenate([np.zeros(1, np.int32), ends[:-1]])
        for port, array in ((1, begins), (2, ends), (3, np.frombuffer(b"".join(tokens), np.uint8))):
            self._replace(port, array)
        weights = np.frombuffer(bytes(self._weights), dtype=np.uint8)
        return ElementTree.tostring(self._tree, encoding="unicode"), weights

    def _bytes(self, port: int) -> bytes:
        data = self._inputs[port].find("data")
        if data is None or self._inputs[port].get("type") != "Const":
            raise KeyError(port)
        begin, size = int(data.get("offset", 0)), int(data.get("size", 0))
        return bytes(self._weights[begin : begin + size])

    def _numbers(self, port: int) -> Any:
        return np.frombuffer(self._bytes(port), dtype=np.int32)

    def _replace(self, port: int, array: Any) -> None:
        self._weights += bytes(-len(self._weights) % _ALIGNMENT)
        layer, size = self._inputs[port], str(array.size)
        data = layer.find("data")
        assert data is not None
        data.set("offset", str(len(self._weights)))
        data.set("size", str(array.nbytes))
        data.set("shape", size)
        for each in (*layer.iterfind("output/port/dim"),
                     *self._decoder.iterfind(f"input/port[@id='{port}']/dim")):  # fmt: skip
            each.text = size
        self._weights += array.tobytes()


def open_form_tokenizer(model_path: str) -> FormTokenizer:
    """Open the tokenizer of a model: a directory, or a GGUF file.

    A detokenizer that is no list of tokens is taken as it is.

    Raises:
        RuntimeError: openvino-genai cannot load the tokenizer.
    """
    path = Path(model_path)
    if path.is_dir():
        return _open(path, path)
    with tempfile.TemporaryDirectory() as folder:
        # The library writes beside the file.
        link = Path(folder) / "model.gguf"
        link.symlink_to(path.absolute())
        genai.Tokenizer(str(link), enable_save_ov_model=True)
        for part in (_TOKENIZER, _DETOKENIZER):
            for name in (f"{part}.xml", f"{part}.bin"):
                found = next(link.parent.rglob(name), None)
                if found is None:
                    return _plain(model_path)
                found.rename(link.parent / name)
        return _open(link.parent, path)


def _open(directory: Path, model: Path) -> FormTokenizer:
    changed = _changed(directory)
    if changed is None:
        return _plain(str(model))
    *_, xml, weights = changed
    tokenizer = genai.Tokenizer(
        (directory / f"{_TOKENIZER}.xml").read_text(encoding="utf-8"),
        openvino.Tensor(np.fromfile(directory / f"{_TOKENIZER}.bin", dtype=np.uint8)),
        xml,
        openvino.Tensor(weights),
    )
    parts, letters, *_ = changed
    own = tokenizer.get_eos_token_id()
    ends = _end_tokens(directory)
    named = {
        parts.tokens[token].decode(errors="replace"): letter
        for token, letter in letters.items()
        if token != own
    }
    end_letters = "".join(
        letter for token, letter in letters.items() if token in ends and token != own
    )
    return FormTokenizer(tokenizer, len(parts.tokens), SpecialLetters(named, end_letters))


def _changed(directory: Path) -> tuple[DetokenizerFiles, dict[int, str], str, Any] | None:
    """Return the detokenizer with letters for its special tokens; None where it has no list."""
    try:
        parts = DetokenizerFiles(directory)
    except (KeyError, OSError, ElementTree.ParseError):
        return None
    ends = [each for each in sorted(_end_tokens(directory)) if each < len(parts.tokens)]
    special = [each for each in parts.special() if each not in ends]
    named = [each for each in special if not _RESERVED.search(parts.tokens[each])]
    # Bytes of ordinary tokens must not spell the letters of special ones.
    tokens = [b"" if _LAST_PLANE in token else token for token in parts.tokens]
    for each in special:
        tokens[each] = b""
    letters = {token: chr(FIRST + i) for i, token in enumerate([*ends, *named][:_MOST])}
    for token, letter in letters.items():
        tokens[token] = letter.encode()
    return parts, letters, *parts.with_tokens(tokens)


def _plain(model_path: str) -> FormTokenizer:
    tokenizer = genai.Tokenizer(model_path)
    size = max(tokenizer.get_vocab().values(), default=-1) + 1
    return FormTokenizer(tokenizer, size, SpecialLetters({}, ""))


def _end_tokens(directory: Path) -> frozenset[int]:
    """Return the tokens that end an answer by the model's generation_config.json."""
    try:
        config = json.loads((directory / "generation_config.json").read_bytes())
    except (OSError, ValueError):
        return frozenset()
    found = config.get("eos_token_id") if isinstance(config, dict) else None
    values = found if isinstance(found, list) else [found]
    return frozenset(each for each in values if type(each) is int and each >= 0)


@contextmanager
def form_directory(model_path: str) -> Iterator[str]:
    """Make a directory with the files of a model and the detokenizer of a `FormTokenizer`.

    For pipelines that open their tokenizer themselves; they have read it when they are open.
    """
    directory = Path(model_path).absolute()
    changed = _changed(directory)
    if changed is None:
        yield model_path
        return
    *_, xml, weights = changed
    with tempfile.TemporaryDirectory() as folder:
        for file in directory.iterdir():
            if file.stem != _DETOKENIZER:
                os.symlink(file, Path(folder) / file.name)
        Path(folder, f"{_DETOKENIZER}.xml").write_text(xml, encoding="utf-8")
        weights.tofile(Path(folder) / f"{_DETOKENIZER}.bin")
        yield folder
