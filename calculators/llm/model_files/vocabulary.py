"""Vocabularies of models, from their files, and their comparison."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from calculators.kit.checkpoints.gguf import GgufFile
from calculators.llm.model_files.model_files import read_json_object
from graph_runtime import ResourceError

_TOKENIZER: Final = ("openvino_tokenizer.xml", "openvino_tokenizer.bin")


def check_same_vocabulary(draft: Path, main: Path, shown: str, *, padded: bool = False) -> None:
    """Check that a draft model has the main model's tokens, as far as the files list them.

    The engine's library only compares the number of tokens of one sentence.

    Args:
        shown: begins the message.
        padded: do not compare the sizes in ``config.json``, which may differ by padding.

    Raises:
        ResourceError: the tokens differ; the text has both numbers.
    """
    if all(_same_content(draft / name, main / name) for name in _TOKENIZER):
        return
    theirs, ours = read_tokens(draft), read_tokens(main)
    if theirs and ours:
        if theirs == ours:
            return
        number = next(
            i for i in sorted(theirs.keys() | ours.keys()) if theirs.get(i) != ours.get(i)
        )
        raise ResourceError(
            f"{shown} has another vocabulary: {len(theirs)} tokens, and the model in models_path "
            f"{len(ours)}; they differ first in token {number}. A draft model must have the same "
            "tokenizer"
        )
    if padded:
        return
    their_size, our_size = read_vocabulary_size(draft), read_vocabulary_size(main)
    if their_size and our_size and their_size != our_size:
        raise ResourceError(
            f"{shown} has another vocabulary: {their_size} tokens, and the model in models_path "
            f"{our_size}. A draft model must have the same tokenizer"
        )


def read_tokens(directory: Path) -> dict[int, str]:
    """Read the tokens by id from ``tokenizer.json`` or the header of a GGUF file.

    {} where they are missing, or of another form.
    """
    if directory.is_file():
        with contextlib.suppress(OSError, ResourceError):
            texts = GgufFile(directory).metadata.texts("tokenizer.ggml.tokens") or []
            return {i: text.decode("utf-8", "replace") for i, text in enumerate(texts)}
        return {}
    content = read_json_object(directory / "tokenizer.json")
    model = content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, list):
        tokens = {
            number: str(pair[0])
            for number, pair in enumerate(vocabulary)
            if isinstance(pair, list) and pair
        }
    elif isinstance(vocabulary, dict):
        tokens = {number: text for text, number in vocabulary.items() if type(number) is int}
    else:
        return {}
    added = content.get("added_tokens")
    for token in added if isinstance(added, list) else ():
        if isinstance(token, dict) and type(token.get("id")) is int:
            tokens[token["id"]] = str(token.get("content"))
    return tokens


def read_vocabulary_size(directory: Path) -> int | None:
    """Read the rows of the model's output from ``config.json``: maybe a few more than tokens."""
    if directory.is_file():
        return None
    config = read_json_object(directory / "config.json")
    inner = config.get("text_config")
    for each in (config, inner if isinstance(inner, dict) else {}):
        if type(each.get("vocab_size")) is int:
            return int(each["vocab_size"])
    return None


def _same_content(one: Path, other: Path) -> bool:
    try:
        return one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()
    except OSError:
        return False
