"""Answers to requests for embeddings, as JSON: OpenAI's, Cohere's, text-embeddings-inference's.

`finish` takes the vectors of the model to the dimensions and the length that were asked for, and
`as_json` writes them in the type of numbers of the answer.
"""

from __future__ import annotations

import binascii
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

if TYPE_CHECKING:
    from calculators.text.embeddings.request import EmbeddingsRequest

Floats = NDArray[np.float32]

#: A vector of zeros is divided by this.
_SMALLEST: Final = np.float32(1e-12)


def finish(values: Floats, dimensions: int | None, *, normalizes: bool) -> Floats:
    """Keep the first ``dimensions`` numbers of each row, and scale the rows to length 1."""
    if dimensions is not None:
        values = values[:, :dimensions]
    if normalizes:
        lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
        values = values / np.maximum(lengths, _SMALLEST)[:, np.newaxis]
    return np.ascontiguousarray(values)


def _int8(values: Floats) -> NDArray[Any]:
    scaled: NDArray[Any] = np.clip(np.rint(values * np.float32(127)), -127, 127).astype(np.int8)
    return scaled


def _uint8(values: Floats) -> NDArray[Any]:
    return (_int8(values).astype(np.int16) + 128).astype(np.uint8)


def _ubinary(values: Floats) -> NDArray[Any]:
    return np.packbits(values > 0, axis=1)


def _binary(values: Floats) -> NDArray[Any]:
    return (_ubinary(values).astype(np.int16) - 128).astype(np.int8)


#: Types of numbers by the names that clients use. int8 is 127 times the number; binary has the
#: signs of eight numbers in a byte, the first in its highest bit, less 128 so that it is signed.
KINDS: Final[Mapping[str, Callable[[Floats], NDArray[Any]]]] = {
    "float": lambda values: values,
    "int8": _int8,
    "uint8": _uint8,
    "binary": _binary,
    "ubinary": _ubinary,
}


def as_json(values: Floats, kind: str, *, is_base64: bool) -> list[bytes]:
    """Return each row as JSON: an array of numbers of a kind, or base64 of their bytes.

    The bytes are little-endian.
    """
    rows = KINDS[kind](values)
    if is_base64:
        rows = rows.astype(rows.dtype.newbyteorder("<"), copy=False)
        return [b'"' + binascii.b2a_base64(row.data, newline=False) + b'"' for row in rows]
    return [orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) for row in rows]


class Answered(NamedTuple):
    """The vectors for a request, shape ``[texts, size]``, and the tokens of all texts."""

    request: EmbeddingsRequest
    vectors: Floats
    tokens: int


def openai_answer(answered: Answered) -> bytes:
    """Return the answer of ``/v3/embeddings``."""
    request, vectors, tokens = answered
    rows = as_json(vectors, request.formats[0], is_base64=request.is_base64)
    data = b",".join(
        b'{"object":"embedding","index":%d,"embedding":%b}' % (place, row)
        for place, row in enumerate(rows)
    )
    return (
        b'{"object":"list","data":[%b],"model":%b,'
        b'"usage":{"prompt_tokens":%d,"total_tokens":%d}}'
        % (data, orjson.dumps(request.model), tokens, tokens)
    )


def tei_answer(answered: Answered) -> bytes:
    """Return the answer of ``/embed``: an array of vectors."""
    return b"[" + b",".join(as_json(answered.vectors, "float", is_base64=False)) + b"]"


def cohere_answer(answered: Answered) -> bytes:
    """Return the answer of ``/v2/embed``: vectors by the type of their numbers."""
    request, vectors, tokens = answered
    by_kind = []
    for kind in request.formats:
        is_base64 = kind == "base64"
        rows = as_json(vectors, "float" if is_base64 else kind, is_base64=is_base64)
        by_kind.append(b'"%b":[%b]' % (kind.encode(), b",".join(rows)))
    return (
        b'{"id":"%b","embeddings":{%b},"texts":%b,"response_type":"embeddings_by_type",'
        b'"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":%d}}}'
        % (
            str(uuid.uuid4()).encode(),
            b",".join(by_kind),
            orjson.dumps(request.texts.values),
            tokens,
        )
    )
