"""The embedding model of an index: which one it is, and how it embeds passages and questions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calculators.text.embeddings.servable import EmbeddingsOptions, embeddings_options
from calculators.text.text_models.model_options import TextModelOptions
from graphrt_base.regular_file import open_regular_file

#: The uses of texts, by which a model's prompts are chosen.
PASSAGE: Final = "passage"
QUESTION: Final = "query"

#: The files that decide the vectors: weights, and the tokenizer's, of which one kind is there.
_WEIGHTS: Final = "openvino_model.bin"
_TOKENIZER: Final = "tokenizer.json"
_OPENVINO_TOKENIZER: Final = ("openvino_tokenizer.xml", "openvino_tokenizer.bin")


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The identity of an embedding model.

    Attributes:
        name: the name of its directory, for people.
        digest: the SHA-256 of its weights and its tokenizer, in hexadecimal digits.
        pooling: "CLS", "LAST" or "MEAN".
    """

    name: str
    digest: str
    pooling: str


def identify(options: EmbeddingsOptions) -> ModelIdentity:
    """Return the identity of a model; reads its files: for a thread.

    Raises:
        OSError: a file cannot be read.
    """
    directory = options.model.directory
    has_tokenizer = (directory / _TOKENIZER).is_file()
    files = (_WEIGHTS, *((_TOKENIZER,) if has_tokenizer else _OPENVINO_TOKENIZER))
    digest = hashlib.sha256()
    for name in files:
        with open_regular_file(directory / name) as file:
            # The digest of each, so that no byte can move from one file to the next.
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return ModelIdentity(directory.resolve().name, digest.hexdigest(), options.pooling)


def hidden_size(model: TextModelOptions) -> int | None:
    """Return the numbers of a vector as config.json says; None if it does not."""
    size = model.config.get("hidden_size", model.config.get("d_model"))
    return size if type(size) is int else None


def embedder_options(
    models_path: str,
    graph_directory: Path,
    *,
    target_device: str = "",
    plugin_config: str = "",
    pooling: str = "",
) -> EmbeddingsOptions:
    """Check the options of an index's model: vectors of length 1, and long texts are cut off.

    Raises:
        ResourceError: with the field, what is wrong, and what would be right.
    """
    return embeddings_options(
        models_path,
        graph_directory,
        target_device=target_device,
        plugin_config=plugin_config,
        pooling=pooling,
        normalizes=True,
        truncates=True,
    )
