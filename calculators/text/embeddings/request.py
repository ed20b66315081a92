"""Requests for embeddings, checked: OpenAI's, and those of text-embeddings-inference and Cohere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    ABOUT_THE_CLIENT,
    EVERYWHERE,
    Members,
    honoured,
    ignored,
    read_members,
    refused,
    table,
)
from calculators.kit.requests.readers import BOOLEAN, STRING, Array, Value
from calculators.kit.requests.schema import array, string, word
from calculators.text.embeddings.texts import (
    DIMENSIONS,
    KIND,
    NUMBER_KINDS,
    PROMPT_MEMBERS,
    TEXTS_SCHEMA,
    TOKENS,
    TRUNCATION_MEMBERS,
    Texts,
    Truncation,
    find_prompt,
    read_texts,
    read_truncation,
)

_FORMATS: Final = (*NUMBER_KINDS, "base64")


def _read_format(value: Any, path: str) -> str:
    # Both texts are those of OpenVINO Model Server.
    if not isinstance(value, str):
        raise RequestError("encoding_format should be string", param=path)
    if value not in _FORMATS:
        raise RequestError(
            "encoding_format should either base64 or float, or one of int8, uint8, binary, ubinary",
            param=path,
        )
    return value


EMBEDDINGS_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    honoured(
        "input",
        Value(TEXTS_SCHEMA),
        "A text, texts, the token ids of a text, or those of several.",
        is_required=True,
    ),
    honoured(
        "encoding_format",
        Value(word(_FORMATS), _read_format),
        "base64 is of little-endian 32-bit floats. int8 and uint8 are the numbers times 127; "
        "binary and ubinary have the signs of eight numbers in one.",
    ),
    honoured("embedding_type", Value(word(_FORMATS), _read_format), "As encoding_format."),
    honoured(
        "output_dtype",
        KIND,
        "As encoding_format; with encoding_format base64, the base64 of these numbers.",
    ),
    honoured(
        "dimensions",
        DIMENSIONS,
        "The first numbers of each embedding; not more than the model's.",
    ),
    honoured("output_dimension", DIMENSIONS, "As dimensions."),
    honoured("normalized", BOOLEAN, "Embeddings of length 1; by default as the graph's node says."),
    honoured("normalize", BOOLEAN, "As normalized."),
    honoured(
        "add_special_tokens", BOOLEAN, "False: texts are embedded without [CLS] and the like."
    ),
    TRUNCATION_MEMBERS,
    PROMPT_MEMBERS,
    ABOUT_THE_CLIENT,
    refused("is not supported: each text is embedded alone", "late_chunking"),
)

TEI_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    honoured("inputs", Value(TEXTS_SCHEMA), "A text, or texts.", is_required=True),
    honoured("normalize", BOOLEAN, "Embeddings of length 1; the default is true."),
    honoured("dimensions", DIMENSIONS, "The first numbers of each embedding."),
    TRUNCATION_MEMBERS,
    PROMPT_MEMBERS,
    ABOUT_THE_CLIENT,
)

COHERE_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    honoured("texts", Value(array(string(), minItems=1)), "The texts.", is_required=True),
    honoured(
        "embedding_types",
        Array(word(_FORMATS), {"minItems": 1}),
        "The types of numbers to return; float by default.",
    ),
    honoured("output_dimension", DIMENSIONS, "The first numbers of each embedding."),
    honoured("max_tokens", TOKENS, "Tokens of a text at most."),
    honoured("input_type", STRING, "As that of /v3/embeddings."),
    honoured("truncate", TRUNCATION_MEMBERS["truncate"].reader, "The default is END."),
    ABOUT_THE_CLIENT,
    ignored("is about what is returned on errors of Cohere's own service", "strict_tools"),
    refused("is not supported: the model embeds texts", "images inputs"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsRequest:
    """Texts to embed, checked.

    Attributes:
        model: the name that the client used.
        body: the checked members, for the choice of a prompt.
        formats: types of numbers, see `calculators.text.embeddings.vectors.KINDS`.
        is_base64: return embeddings as base64.
        dimensions: the numbers to return of each embedding; None: all.
        normalizes: return vectors of length 1; None: as the node does.
    """

    model: str
    texts: Texts
    body: Mapping[str, Any]
    truncation: Truncation
    formats: Sequence[str] = ("float",)
    is_base64: bool = False
    dimensions: int | None = None
    normalizes: bool | None = None
    adds_special: bool = True

    def prompt(self, prompts: Mapping[str, str], default: str) -> str:
        """Return the text that is put before each text.

        Raises:
            RequestError: the request names a prompt that the model does not have.
        """
        if self.texts.ids:
            return ""
        return find_prompt(self.body, prompts, default)


def parse_embeddings_request(body: object) -> EmbeddingsRequest:
    """Return the request of a parsed JSON body of ``/v3/embeddings``.

    Raises:
        RequestError: INVALID_ARGUMENT, with the member that is wrong, or that is not known.
    """
    read = read_members(fields.body_object(body), EMBEDDINGS_MEMBERS)
    form = read.get("encoding_format", read.get("embedding_type", "float"))
    kind = read.get("output_dtype", "float" if form == "base64" else form)
    return EmbeddingsRequest(
        model=read.get("model", ""),
        body=read,
        texts=read_texts(read, "input"),
        truncation=read_truncation(read),
        formats=(kind,),
        is_base64=form == "base64",
        dimensions=read.get("dimensions", read.get("output_dimension")),
        normalizes=read.get("normalized", read.get("normalize")),
        adds_special=read.get("add_special_tokens", True),
    )


def parse_tei_request(body: object) -> EmbeddingsRequest:
    """Return the request of a parsed JSON body of ``/embed``; see `parse_embeddings_request`."""
    read = read_members(fields.body_object(body), TEI_MEMBERS)
    return EmbeddingsRequest(
        model=read.get("model", ""),
        body=read,
        texts=read_texts(read, "inputs"),
        truncation=read_truncation(read),
        dimensions=read.get("dimensions"),
        normalizes=read.get("normalize", True),
    )


def parse_cohere_request(body: object) -> EmbeddingsRequest:
    """Return the request of a parsed JSON body of ``/v2/embed``; see `parse_embeddings_request`."""
    read = read_members(fields.body_object(body), COHERE_MEMBERS)
    texts = read_texts(read, "texts")
    if not texts.is_list or texts.ids:
        raise fields.wrong_type("texts", "an array of strings", read["texts"])
    formats = tuple(dict.fromkeys(read.get("embedding_types") or ("float",)))
    for place, each in enumerate(formats):
        _read_format(each, f"embedding_types[{place}]")
    truncation = read_truncation({"truncate": "right", **read})
    most = read.get("max_tokens")
    return EmbeddingsRequest(
        model=read.get("model", ""),
        body=read,
        texts=texts,
        truncation=Truncation(truncation.cuts, truncation.side, most),
        formats=formats,
        dimensions=read.get("output_dimension"),
    )
