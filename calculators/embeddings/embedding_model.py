"""`EmbeddingModel`: from texts to embeddings, in a process of its own."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import openvino as ov
import openvino_genai as genai
from numpy.typing import NDArray

from calculators.child_process.answering_process import Report
from calculators.child_process.messages import Loading
from calculators.embeddings.messages import Embed, Embedded, Load, Refused

Ids: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float32]

#: Tokens of one inference, padding included: a processor is full at a fraction of these, and the
#: memory that a model takes for so many is known.
_BATCH_TOKENS: Final = 4096
#: A divisor that would be smaller, of a text of padding or of a vector of zeros, is this.
_SMALLEST: Final = 1e-12


class EmbeddingModel:
    """Tokenizer and model of a directory.

    Attributes:
        size: numbers of an embedding; 0 where the model does not say.
    """

    def __init__(self, load: Load, report: Report) -> None:
        """Read and compile; ``report`` gets the phases.

        Raises:
            RuntimeError: the library's, or the model is none that makes embeddings.
        """
        directory = Path(load.model_path)
        self._load = load
        report(Loading("loading the tokenizer", 0.3, 0.5))
        self._tokenizer = genai.Tokenizer(load.model_path)
        self._suffix = _special_suffix(self._tokenizer)
        pad = self._tokenizer.get_pad_token_id()
        self._pad = pad if pad >= 0 else 0
        report(Loading("compiling the model", 0.5, 1.0))
        model = ov.Core().read_model(directory / "openvino_model.xml")
        self._output = _hidden_state(model)
        shape = model.outputs[self._output].get_partial_shape()
        self.size: int = shape[2].get_length() if shape[2].is_static else 0
        self._inputs = [_input_name(port) for port in model.inputs]
        compiled = ov.Core().compile_model(model, load.device, load.properties)
        self._request = compiled.create_infer_request()

    def embed(self, question: Embed) -> Embedded | Refused:
        """Answer a question; texts of like length are computed together."""
        texts: list[Ids] = []
        for place, text in enumerate(question.texts, question.first):
            ids = self._tokens(text)
            if len(ids) > self._load.max_tokens:
                return Refused(
                    f"the text has {len(ids)} tokens, and the model takes {self._load.max_tokens} "
                    "at most; shorten or split it",
                    f"input[{place}]",
                    "OUT_OF_RANGE",
                )
            if not len(ids):
                return Refused("the text has no tokens", f"input[{place}]")
            texts.append(ids)
        if self.size and question.dimensions is not None and question.dimensions > self.size:
            return Refused(
                f"the model's embeddings have {self.size} dimensions, which is the maximum",
                "dimensions",
            )
        embeddings: list[bytes] = [b""] * len(texts)
        for batch in _batches(texts):
            vectors = self._vectors([texts[place] for place in batch])
            vectors = self._finished(vectors, question.dimensions)
            for place, vector in zip(batch, vectors, strict=True):
                embeddings[place] = _json(vector, is_base64=question.is_base64)
        return Embedded(embeddings, sum(map(len, texts)))

    def _tokens(self, text: str) -> Ids:
        encoded = self._tokenizer.encode(text, add_special_tokens=True)
        ids = np.array(encoded.input_ids.data, dtype=np.int64).reshape(-1)
        longest = self._load.max_tokens
        if not self._load.truncates or len(ids) <= longest:
            return ids
        # The tokens that end a text stay: models expect them, and some take them for the text.
        suffix = min(self._suffix, longest)
        return np.concatenate([ids[: longest - suffix], ids[len(ids) - suffix :]])

    def _vectors(self, texts: list[Ids]) -> Floats:
        """The pooled output for each text, shape ``[texts, size]``."""
        longest = max(map(len, texts))
        ids = np.full((len(texts), longest), self._pad, np.int64)
        mask = np.zeros((len(texts), longest), np.int64)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        values = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
            "position_ids": np.maximum(np.cumsum(mask, axis=1) - 1, 0),
        }
        self._request.infer([values[name] for name in self._inputs])
        hidden: Floats = self._request.get_output_tensor(self._output).data.astype(np.float32)
        match self._load.pooling:
            case "MEAN":
                weights = mask[:, :, np.newaxis].astype(np.float32)
                total = (hidden * weights).sum(axis=1)
                return np.asarray(total / np.maximum(weights.sum(axis=1), _SMALLEST), np.float32)
            case "LAST":
                pooled: Floats = hidden[np.arange(len(texts)), mask.sum(axis=1) - 1]
                return pooled
            case _:
                first: Floats = hidden[:, 0]
                return first

    def _finished(self, vectors: Floats, dimensions: int | None) -> Floats:
        """Keep the first dimensions, and scale to length 1 if requested."""
        vectors = vectors[:, :dimensions]
        if self._load.normalizes:
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.maximum(lengths, _SMALLEST)
        return vectors


def _json(vector: Floats, *, is_base64: bool) -> bytes:
    if is_base64:
        return b'"' + base64.b64encode(vector.astype("<f4").tobytes()) + b'"'
    return msgspec.json.encode(vector.tolist())


def _batches(texts: list[Ids]) -> list[list[int]]:
    """Group indices of texts of similar length into batches with a bounded number of tokens."""
    batches: list[list[int]] = []
    for place in sorted(range(len(texts)), key=lambda each: len(texts[each])):
        # The longest of a batch is its last, and all are padded to that.
        if not batches or (len(batches[-1]) + 1) * len(texts[place]) > _BATCH_TOKENS:
            batches.append([])
        batches[-1].append(place)
    return batches


def _hidden_state(model: Any) -> int:
    """The output with a vector for each token: the first of three dimensions."""
    for place, port in enumerate(model.outputs):
        rank = port.get_partial_shape().rank
        if rank.is_static and rank.get_length() == 3:
            return place
    raise RuntimeError(
        "openvino_model.xml has no output of three dimensions (texts, tokens, size); export it "
        "with optimum-cli export openvino --task feature-extraction"
    )


def _input_name(port: Any) -> str:
    known = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
    found = sorted(known & port.get_names())
    if not found:
        names = ", ".join(sorted(port.get_names())) or "without a name"
        raise RuntimeError(
            f"openvino_model.xml has the input {names}; those of an embedding model are "
            f"{', '.join(sorted(known))}"
        )
    return str(found[0])


def _special_suffix(tokenizer: Any) -> int:
    """Return the number of tokens that the tokenizer appends to each text."""

    def ids(text: str) -> list[int]:
        encoded = tokenizer.encode(text, add_special_tokens=True)
        return [int(each) for each in encoded.input_ids.data.reshape(-1)]

    first, second = ids("a"), ids("b")
    count = 0
    while count < min(len(first), len(second)) and first[-1 - count] == second[-1 - count]:
        count += 1
    return count
