"""The tokens of a model, from its files; and whether two models have the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from graph_runtime import ResourceError
from graph_runtime.regular_file import MODEL_FILE_BYTES, read_regular_file

_TOKENIZER: Final = ("openvino_tokenizer.xml", "openvino_tokenizer.bin")


def check_same_vocabulary(draft: Path, main: Path, shown: str, *, padded: bool = False) -> None:
    """Check that a draft model's tokens are the main model's; nothing where the files are silent.

    The engine's library only compares how many tokens one sentence has.

    Args:
        shown: begins the message.
        padded: do not compare the sizes that ``config.json`` tells: they may differ.

    Raises:
        ResourceError: they are others; both numbers are told.
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
    """By number, from ``tokenizer.json``; none where that is not there or of another form."""
    content = _read_json(directory / "tokenizer.json")
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
    """From ``config.json``: the rows of the model's output, maybe a few more than tokens."""
    config = _read_json(directory / "config.json")
    inner = config.get("text_config")
    for each in (config, inner if isinstance(inner, dict) else {}):
        if type(each.get("vocab_size")) is int:
            return int(each["vocab_size"])
    return None


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_regular_file(file, MODEL_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _same_content(one: Path, other: Path) -> bool:
    try:
        return one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()
    except OSError:
        return False
