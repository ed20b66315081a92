"""`EmbeddingsServable`: an embedding model as the resource of its node, and the node's options.

The model's process returns a vector for each text. The options of the node, and each request,
decide on truncation, on the prompt before each text, on length 1 and on the number of dimensions.

Names, defaults and their meaning in `EmbeddingsOptions` are OpenVINO Model Server's
(``embeddings/embeddings_servable.cpp``, ``sidepacket_servable.cpp``); the words are ours.

Answers are JSON: OpenAI's, Cohere's, text-embeddings-inference's. `finish` takes the vectors of the
model to the dimensions and the length that were asked for, and `as_json` writes them in the type of
numbers of the answer.
"""

from __future__ import annotations

import binascii
import logging
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from calculators.kit.model_card import ModelCard, read_model_card
from calculators.kit.model_directory import read_checked_json
from calculators.kit.model_initializer import ModelHost
from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import current_record
from calculators.kit.tasks.nodes import find_model_options, naming_node
from calculators.text.embeddings.encoding import Cut, Embed
from calculators.text.embeddings.request import EmbeddingsRequest, Truncation, find_prompt
from calculators.text.text_models.encoder_task import MAX_ALL_CHARACTERS, MAX_CHARACTERS, MAX_TEXTS
from calculators.text.text_models.model_options import TextModelOptions, read_text_model
from calculators.text.text_models.text_model import TextModelInitializer, TextServable, off_loop
from graph_runtime import Code, NodePlan, ResourceSettings
from protos import messages

Floats = NDArray[np.float32]

#: A vector of zeros is divided by this.
_SMALLEST: Final = np.float32(1e-12)


def finish(values: Floats, dimensions: int | None, *, normalizes: bool) -> Floats:
    """Keep the first ``dimensions`` numbers of each row, and scale the rows to length 1.

    Raises:
        RequestError: INTERNAL, a number is not finite.
    """
    if not np.isfinite(values).all():
        _log.error("the model's output has numbers that are not finite")
        raise RequestError("the model's output has numbers that are not finite", code=Code.INTERNAL)
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


def ollama_answer(answered: Answered) -> bytes:
    """Return the answer of ``/api/embed``: the vectors, with counts and nanoseconds."""
    rows = as_json(answered.vectors, "float", is_base64=False)
    record = current_record()
    took = 0 if record is None else perf_counter_ns() - record.began
    return (
        b'{"model":%b,"embeddings":[%b],"total_duration":%d,"load_duration":0,'
        b'"prompt_eval_count":%d}'
        % (orjson.dumps(answered.request.model), b",".join(rows), took, answered.tokens)
    )


def ollama_vector(answered: Answered) -> bytes:
    """Return the answer of ``/api/embeddings``: the vector of the only text."""
    return b'{"embedding":%b}' % as_json(answered.vectors, "float", is_base64=False)[0]


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


OPTIONS_TYPE = messages.EmbeddingsCalculatorOVOptions

_POOLING: Final = {
    "pooling_mode_cls_token": "CLS",
    "pooling_mode_mean_tokens": "MEAN",
    "pooling_mode_lasttoken": "LAST",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsOptions:
    """The options of one node.

    Attributes:
        model: the model, and how it is computed.
        pooling: "CLS", "LAST" or "MEAN".
        normalizes: scale embeddings to length 1.
        truncates: cut longer texts off; otherwise they are refused.
        prompts: texts that the model expects before those to embed, by name.
        default_prompt: the name of the prompt where a request names none; "": no prompt.
        warnings: texts for the log.
    """

    model: TextModelOptions
    pooling: str
    normalizes: bool
    truncates: bool
    prompts: Mapping[str, str]
    default_prompt: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def head(self) -> Mapping[str, Any]:
        """The settings of the model's head: a part of what is compiled."""
        return {"pooling": self.pooling}


def read_embeddings_options(node: NodePlan, settings: ResourceSettings) -> EmbeddingsOptions:
    """Check the options of a node, and the files that they name.

    Raises:
        ResourceError: with the node's name, the field, what is wrong, and what would be right.
    """
    with naming_node(node):
        return _read(find_model_options(node, OPTIONS_TYPE), settings)


def _read(
    options: messages.EmbeddingsCalculatorOVOptions, settings: ResourceSettings
) -> EmbeddingsOptions:
    pooling: str = ""
    if options.HasField("pooling"):
        pooling = type(options).Pooling.Name(options.pooling)
    return embeddings_options(
        options.models_path,
        settings.directory,
        target_device=options.target_device,
        plugin_config=options.plugin_config,
        pooling=pooling,
        normalizes=options.normalize_embeddings,
        truncates=options.truncate,
        settings=settings,
    )


def embeddings_options(
    models_path: str,
    graph_directory: Path,
    *,
    target_device: str = "",
    plugin_config: str = "",
    pooling: str = "",
    normalizes: bool = True,
    truncates: bool = False,
    settings: ResourceSettings | None = None,
) -> EmbeddingsOptions:
    """Check options, and the files that they name.

    Args:
        models_path: the model's directory or GGUF file, relative to ``graph_directory``.
        pooling: "CLS", "LAST" or "MEAN"; "": as the model's files say.
        settings: name the cache of converted GGUF files; None: it is the user's.

    Raises:
        ResourceError: with the field, what is wrong, and what would be right.
    """
    model = read_text_model(
        models_path, target_device, plugin_config, graph_directory, settings=settings
    )
    warnings: tuple[str, ...] = ()
    if not pooling:
        pooling, warnings = _pooling_of(model.directory)
    prompts, default = _prompts_of(model.directory)
    return EmbeddingsOptions(
        model=model,
        pooling=pooling,
        normalizes=normalizes,
        truncates=truncates,
        prompts=prompts,
        default_prompt=default,
        warnings=warnings,
    )


def _pooling_of(directory: Path) -> tuple[str, tuple[str, ...]]:
    """The pooling of the model's own files, with a warning if they name none that is supported."""
    config = read_checked_json(directory / "1_Pooling" / "config.json")
    asked = sorted(
        name for name, value in config.items() if name.startswith("pooling_mode_") and value is True
    )
    if len(asked) == 1 and asked[0] in _POOLING:
        return _POOLING[asked[0]], ()
    said = f"asks for {', '.join(asked)}" if asked else "does not say which"
    return "CLS", (
        f"pooling: 1_Pooling/config.json {said}: CLS is taken; set pooling to CLS, LAST or MEAN",
    )


def _prompts_of(directory: Path) -> tuple[Mapping[str, str], str]:
    """Return the prompts by name, and the name of the default one, as sentence-transformers."""
    config = read_checked_json(directory / "config_sentence_transformers.json")
    found = config.get("prompts")
    prompts = {
        name: text
        for name, text in (found.items() if isinstance(found, dict) else ())
        if isinstance(text, str)
    }
    default = config.get("default_prompt_name")
    return prompts, default if isinstance(default, str) and default in prompts else ""


_log: Final = logging.getLogger("graphrt.embeddings")


class Embedded(NamedTuple):
    """Vectors of texts, shape ``[texts, size]``, and the number of tokens of all."""

    vectors: Floats
    tokens: int


class EmbeddingsServable(TextServable[EmbeddingsOptions]):
    """A model in a supervised process.

    Attributes:
        model: the process.
        max_tokens: the most tokens of one text.
    """

    def __init__(self, options: EmbeddingsOptions, host: ModelHost) -> None:
        super().__init__(
            "calculators.text.embeddings.process", options, kind="embedding", host=host
        )

    @property
    def pooling(self) -> str:
        """How the vectors of a text's tokens become one: "CLS", "LAST" or "MEAN"."""
        return self._options.pooling

    @property
    def card(self) -> ModelCard:
        """The facts about the model that clients ask for."""
        return read_model_card(self._options.model.directory, ("embedding",))

    async def answer(self, request: EmbeddingsRequest, write: Callable[[Answered], bytes]) -> bytes:
        """Return the answer to a request, as ``write`` puts it.

        Raises:
            RequestError: a text is too long for the model; too many wait; the process is down.
        """
        options = self._options
        self._check_dimensions(request.dimensions, self._columns)
        texts = request.texts
        outputs = await self.model.ask(
            Embed(
                texts.values,
                texts.ids,
                request.prompt(options.prompts, options.default_prompt),
                self._cut(request.truncation),
                request.truncation.most,
                texts.param,
                texts.is_list,
                request.adds_special,
            ),
            characters=texts.size,
            param=texts.param,
        )
        self._check_dimensions(request.dimensions, outputs.values.shape[1])
        normalizes = options.normalizes if request.normalizes is None else request.normalizes

        def written() -> bytes:
            vectors = finish(outputs.values, request.dimensions, normalizes=normalizes)
            return write(Answered(request, vectors, sum(outputs.tokens)))

        return await off_loop(outputs.values.size, written)

    async def embed(
        self, texts: Sequence[str], *, cuts: bool | None = None, use: str = ""
    ) -> Embedded:
        """Return the vectors of texts, as the node's options say; no texts have none.

        Args:
            cuts: cut off what is too long for the model; None: as the node does.
            use: of the texts, such as "query" or "passage": the model's prompt for it is put before
                each, if it has one.

        Raises:
            RequestError: a text is too long for the model; too many wait; the process is down.
        """
        if not texts:
            return Embedded(np.empty((0, self._columns), np.float32), 0)
        _check_size(texts)
        options = self._options
        prompt = self.prompt(use)
        cut = self._cut(Truncation(cuts))
        outputs = await self.model.ask(
            Embed(list(texts), [], prompt, cut, None, "texts", is_list=True),
            characters=sum(map(len, texts)),
            param="texts",
        )
        vectors = finish(outputs.values, None, normalizes=options.normalizes)
        return Embedded(vectors, sum(outputs.tokens))

    def prompt(self, use: str) -> str:
        """Return the text that is put before texts of a use, "" for none; see `embed`."""
        options = self._options
        return find_prompt({"input_type": use}, options.prompts, options.default_prompt)

    def _cut(self, truncation: Truncation) -> Cut:
        cuts = self._options.truncates if truncation.cuts is None else truncation.cuts
        return truncation.side if cuts else ""

    @staticmethod
    def _check_dimensions(dimensions: int | None, size: int) -> None:
        if dimensions is not None and not 1 <= dimensions <= (size or math.inf):
            raise RequestError(
                f"dimensions must be between 1 and {size or 'those of the model'}, not "
                f"{fields.describe(dimensions)}",
                param="dimensions",
            )


def _check_size(texts: Sequence[str]) -> None:
    fields.check_most("texts", len(texts), "texts", MAX_TEXTS)
    longest, total = max(map(len, texts)), sum(map(len, texts))
    if longest > MAX_CHARACTERS or total > MAX_ALL_CHARACTERS:
        raise fields.invalid(
            "texts",
            f"{total} characters, {longest} in one text, are above the maximum "
            f"{MAX_ALL_CHARACTERS}, {MAX_CHARACTERS} in one text",
        )


RESOURCES_TAG: Final = "EMBEDDINGS_NODE_RESOURCES"


class EmbeddingsResourceInitializer(TextModelInitializer[EmbeddingsOptions, EmbeddingsServable]):
    """Loads the model of every node that embeds texts."""

    tag = RESOURCES_TAG
    family = "embeddings"
    calculators = ("EmbeddingsCalculatorOV", "TextEmbeddingCalculator")

    def read(self, node: NodePlan, settings: ResourceSettings) -> EmbeddingsOptions:
        return read_embeddings_options(node, settings)

    def warnings(self, options: EmbeddingsOptions) -> Sequence[str]:
        return options.warnings

    def resource(
        self, options: EmbeddingsOptions, host: ModelHost, settings: ResourceSettings
    ) -> EmbeddingsServable:
        return EmbeddingsServable(options, host)
