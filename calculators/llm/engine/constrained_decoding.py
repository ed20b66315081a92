"""Constrained decoding: what openvino-genai and its library of grammars need beside a pipeline.

*The cache.* The library keeps compiled grammars with the tokenizer and the size of the vocabulary,
and never forgets one. A pipeline of another vocabulary size on the same tokenizer makes it drop all
grammars at once. The memory of a process that gets new grammars is therefore a sawtooth, whose
height `GrammarCache` bounds.

*The probe.* The engine's library compiles a grammar when a request that has one is first scheduled,
in the middle of a step that all requests share, and an exception there breaks the pipeline.
`CompileProbe` compiles it before: it generates one token with a model that gives every token the
same weight and takes milliseconds. Pipelines that share a tokenizer share the compiled grammar.

*The tokenizer.* openvino-genai (2026.4) gives the library of grammars one end token, and the texts
of all other tokens as they are in the detokenizer. So ``<|im_start|>`` fits wherever a form allows
its letters, and a second end token ends the answer there
(`tests/upstream/test_special_tokens.py`). In the detokenizer of `FormTokenizer`, a special token is
one letter of Unicode's last private plane instead, which no rule of ours allows. A form can still
ask for the token: by that letter. Tokens that no form asks for have no text at all, and are never
allowed; nor have those with a byte that could spell such a letter. Pipelines use this detokenizer
for grammars and stop strings only; text is made of tokens elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import sys
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
from openvino import opset13 as ops

from calculators.kit.memory import return_free_memory
from calculators.llm.grammars.grammar import FIRST, Grammar, SpecialLetters

_TOKENIZER: Final = "openvino_tokenizer"
_DETOKENIZER: Final = "openvino_detokenizer"
#: Texts of special tokens that no model writes.
# Llama 3 and Mistral reserve hundreds of special tokens that no template writes.
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
            # SentencePiece's detokenizer is a model of its own, not a list of tokens: it is used
            # unchanged (decision 0088).
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
        # openvino_tokenizers wrote the list as an attribute before it became an input.
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
        # New arrays are appended: overwriting would move the offsets of all other constants.
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

    A detokenizer that is not a list of tokens is taken as it is.

    Raises:
        RuntimeError: openvino-genai cannot load the tokenizer.
    """
    path = Path(model_path)
    if path.is_dir():
        return _open(path, path)
    with tempfile.TemporaryDirectory() as folder:
        # The library writes beside the file.
        link = Path(folder) / "model.gguf"
        # A link in a temporary folder, as the directory of the model may be read-only.
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
    # Byte-level vocabularies have a token for each byte: four of them together could spell the
    # letter of a special token.
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


class CompileProbe:
    """A pipeline with a model's tokenizer and vocabulary size, for compiling grammars only."""

    def __init__(self, tokenizer: Any, vocabulary_size: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.xml"
            openvino.save_model(_model(vocabulary_size), path, compress_to_fp16=False)
            weights = np.fromfile(path.with_suffix(".bin"), dtype=np.uint8)
            self._pipeline = genai.LLMPipeline(
                path.read_text(encoding="utf-8"),
                openvino.Tensor(weights),
                tokenizer,
                "CPU",
                # The default, paged attention, needs a scheduler and a cache for the one token of
                # this model.
                ATTENTION_BACKEND="SDPA",
            )

    def compile(self, grammar: Grammar) -> None:
        """Compile a grammar; the library releases the interpreter's lock meanwhile.

        Raises:
            RuntimeError: the library refuses the grammar; the probe can be used again.
        """
        self._generate(structured_output(grammar))

    def run(self) -> None:
        """Generate a token without a grammar."""
        self._generate(None)

    def _generate(self, output: Any) -> None:
        config = genai.GenerationConfig()
        config.max_new_tokens = 1
        config.apply_chat_template = False
        if output is not None:
            config.structured_output_config = output
        self._pipeline.generate(openvino.Tensor(np.zeros((1, 1), dtype=np.int64)), config)


def structured_output(grammar: Grammar) -> Any:
    """Convert a grammar to the library's ``StructuredOutputConfig``."""
    return genai.StructuredOutputConfig(grammar=grammar.text)


def _model(vocabulary_size: int) -> openvino.Model:
    """Make a model with the four inputs that the library expects, and equal logits."""
    inputs = [
        ops.parameter([-1, -1], np.int64, name="input_ids"),
        ops.parameter([-1, -1], np.int64, name="attention_mask"),
        ops.parameter([-1, -1], np.int64, name="position_ids"),
        ops.parameter([-1], np.int32, name="beam_idx"),
    ]
    zero = ops.constant(np.float32(0))
    nothing = ops.multiply(ops.convert(inputs[0], "f32"), zero)
    logits = ops.unsqueeze(nothing, ops.constant(2))
    for each in inputs:
        each.output(0).get_tensor().set_names({each.get_friendly_name()})
        axes = ops.constant(np.arange(each.get_output_partial_shape(0).rank.get_length()))
        total = ops.reduce_sum(ops.convert(each, "f32"), axes, keep_dims=False)
        logits = ops.add(logits, ops.multiply(total, zero))
    row = ops.constant(np.zeros((1, 1, vocabulary_size), dtype=np.float32))
    logits = ops.add(logits, row)
    logits.output(0).get_tensor().set_names({"logits"})
    return openvino.Model([ops.result(logits)], inputs, "tiny")


#: Growth of the process that compiled grammars may cause before all are dropped, and their number.
#: A grammar of three properties takes 0.7 MiB for 2,500 tokens and 6 MiB for 49,000.
MAX_BYTES: Final = 512 * 1024**2
MAX_COUNT: Final = 64


class GrammarCache:
    """The grammars that a tokenizer's pipelines need not compile again.

    `has` and `make_room` are called by the thread that steps, `compile` by one other thread.
    """

    def __init__(
        self,
        tokenizer: Any,
        vocabulary_size: int,
        *,
        max_bytes: int = MAX_BYTES,
        max_count: int = MAX_COUNT,
    ) -> None:
        """Make an empty cache.

        Args:
            tokenizer: the pipeline's, of openvino-genai.
            vocabulary_size: exactly the size of the pipeline's logits. With any other size the
                pipeline and the probe would drop each other's grammars.
            max_bytes: growth of the process after which `make_room` drops all grammars.
            max_count: the number of grammars at which it does so.
        """
        self._max_bytes = max_bytes
        self._max_count = max_count
        self._compiling = CompileProbe(tokenizer, vocabulary_size)
        # Made once: that takes a fifth of a second, and steps wait while it is used.
        # Another vocabulary size on the same tokenizer is the only way to make the library (2026.4)
        # forget grammars.
        self._emptying = CompileProbe(tokenizer, vocabulary_size + 1)
        self._compiled: set[Grammar] = set()
        self._bytes = 0
        self._has_freed = False

    def has(self, grammar: Grammar) -> bool:
        """Return True if the grammar is compiled."""
        return grammar in self._compiled

    def compile(self, grammar: Grammar) -> None:
        """Compile a grammar; in any thread, but one at a time.

        Raises:
            RuntimeError: the library refuses the grammar.
        """
        if self._has_freed:
            # Else the C library keeps it, and what fills it again would not be counted.
            self._has_freed = False
            return_free_memory()
        # The library does not report the size of a compiled grammar; the growth of the process is
        # an upper bound.
        before = _resident_bytes()
        self._compiling.compile(grammar)
        self._bytes += max(0, _resident_bytes() - before)
        self._compiled.add(grammar)

    def make_room(self) -> None:
        """Drop all grammars if there are too many. Called by the stepping thread, between steps."""
        if self._bytes <= self._max_bytes and len(self._compiled) < self._max_count:
            return
        self._compiled.clear()
        self._bytes = 0
        self._emptying.run()
        self._compiling.run()
        self._has_freed = True


def open_grammar_cache(
    model_path: str, tokenizer: Any, config: Any, token_count: int
) -> GrammarCache:
    """Open the cache of a model.

    Args:
        model_path: a directory, or a GGUF file.
        tokenizer: the pipeline's, of openvino-genai.
        config: the model's ``GenerationConfig``.
        token_count: the number of the tokenizer's tokens.

    Raises:
        RuntimeError: the size of the vocabulary, or the end token, is unknown.
    """
    size = vocabulary_size(model_path, token_count)
    if size is None or not config.stop_token_ids:
        raise RuntimeError("the model's files do not give its vocabulary or its end token")
    return GrammarCache(tokenizer, size)


def vocabulary_size(model_path: str, token_count: int) -> int | None:
    """Return the number of logits per token; None where the model's files do not say."""
    path = Path(model_path)
    if path.is_file():
        # A model in a GGUF file has one logit per token of the vocabulary.
        return token_count or None
    for name in ("openvino_model.xml", "openvino_language_model.xml"):
        if (path / name).is_file():
            shape = openvino.Core().read_model(path / name).output("logits").partial_shape
            return int(shape[-1].get_length()) if shape[-1].is_static else None
    return None


def _resident_bytes() -> int:
    """Return the resident size of this process; 0 where the system does not report it."""
    if sys.platform != "linux":
        return 0
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
