"""The two tokenizers of encoder models, chosen by the files of a model's directory.

tokenizer.json is read by Hugging Face's library (`HuggingFaceTokenizer`). A model without it has
OpenVINO's own files (`OpenvinoTokenizer`), which know neither pairs nor offsets.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from calculators.text.text_models.messages import EncoderLoad
from calculators.text.text_models.text_tokenizer import (
    Ids,
    InputError,
    Side,
    TextTokenizer,
    TextTokens,
)


class HuggingFaceTokenizer(TextTokenizer):
    """The tokenizer of a tokenizer.json.

    Only ``encode_batch`` and its sister let other threads run meanwhile, so single texts go through
    them too. Truncation is done here: the library keeps it as a setting for all callers.
    """

    def __init__(self, load: EncoderLoad, file: Path) -> None:
        """Read the file.

        Raises:
            RuntimeError: it is not a tokenizer.
        """
        try:
            tokenizer: Any = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises plain ones
            raise RuntimeError(f"tokenizer.json cannot be read: {error}") from None
        tokenizer.no_truncation()
        tokenizer.no_padding()
        super().__init__(load, tokenizer.get_vocab_size(with_added_tokens=True))
        self._tokenizer = tokenizer
        self._special = tokenizer.num_special_tokens_to_add(False)
        self._special_of_pair = tokenizer.num_special_tokens_to_add(True)

    def encode(self, texts: Sequence[str], *, adds_special: bool = True) -> list[TextTokens]:
        batch = self._tokenizer.encode_batch_fast(texts, add_special_tokens=adds_special)
        return [_tokens(each) for each in batch]

    def cut(
        self, text: str, tokens: TextTokens, most: int, side: Side, adds_special: bool
    ) -> TextTokens:
        (plain,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        plain.truncate(max(0, most - self._special * adds_special), direction=side)
        ids, types = _tokens(self._tokenizer.post_process(plain, None, adds_special))
        return TextTokens(ids[:most], None if types is None else types[:most])

    def encode_pairs(
        self,
        first: str,
        seconds: Sequence[str],
        *,
        most: int | None = None,
        first_most: int | None = None,
        seconds_most: int | None = None,
        chunks: bool = False,
        side: Side = "right",
    ) -> list[list[TextTokens]]:
        most = self.max_tokens if most is None else most
        # The query is tokenized once for all documents; the package's own pairs would do so for
        # each.
        (head,) = self._tokenizer.encode_batch_fast([first], add_special_tokens=False)
        if first_most is not None and len(head) > first_most:
            head.truncate(first_most, direction=side)
        room = most - self._special_of_pair - len(head)
        if room < 1:
            raise InputError(
                f"the first text has {len(head)} tokens, which leaves no room for a second one in "
                f"the {most} that the model takes"
            )
        made = []
        for second in self._tokenizer.encode_batch_fast(seconds, add_special_tokens=False):
            if seconds_most is not None and len(second) > seconds_most:
                second.truncate(seconds_most, direction=side)
            parts = [second]
            if len(second) > room:
                second.truncate(room, direction="right" if chunks else side)
                if chunks:
                    parts += second.overflowing
            made.append([_tokens(self._tokenizer.post_process(head, part)) for part in parts])
        return made

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return list(map(len, self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)))

    def offsets(self, text: str, *, adds_special: bool = True) -> list[tuple[int, int]]:
        (encoded,) = self._tokenizer.encode_batch([text], add_special_tokens=adds_special)
        return list(encoded.offsets)

    def id_of(self, token: str) -> int | None:
        found: int | None = self._tokenizer.token_to_id(token)
        return found

    def decode(self, ids: Sequence[int], *, skips_special: bool = False) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=skips_special)
        return text


def _tokens(encoding: Any) -> TextTokens:
    types = encoding.type_ids
    # Texts alone have segment 0 only, with nearly every model.
    return TextTokens(
        np.array(encoding.ids, np.int64), np.array(types, np.int64) if any(types) else None
    )


class OpenvinoTokenizer(TextTokenizer):
    """The tokenizer that OpenVINO runs. It knows neither pairs nor the characters of a token."""

    def __init__(self, load: EncoderLoad) -> None:
        """Read the files.

        Raises:
            RuntimeError: the library's.
        """
        # Imported here: genai takes long to load, and nearly no model needs it.
        import openvino_genai as genai

        self._tokenizer = genai.Tokenizer(load.model_path)
        self._ids_by_token: dict[str, int] = {}
        with contextlib.suppress(RuntimeError):  # only the detokenizer's files have them
            self._ids_by_token = self._tokenizer.get_vocab()
        super().__init__(load, len(self._ids_by_token))
        pad = self._tokenizer.get_pad_token_id()
        if "pad_token_id" not in self.config and pad >= 0:
            self.pad = pad
        first, second = self._ids("a", adds_special=True), self._ids("b", adds_special=True)
        self._before = _common(first, second)
        self._after = _common(first[::-1], second[::-1])

    def _ids(self, text: str, *, adds_special: bool) -> Ids:
        # An empty list ends the process, and so texts are encoded one by one.
        encoded = self._tokenizer.encode(text, add_special_tokens=adds_special)
        return np.array(encoded.input_ids.data, dtype=np.int64).reshape(-1)

    def encode(self, texts: Sequence[str], *, adds_special: bool = True) -> list[TextTokens]:
        return [TextTokens(self._ids(text, adds_special=adds_special)) for text in texts]

    def cut(
        self, text: str, tokens: TextTokens, most: int, side: Side, adds_special: bool
    ) -> TextTokens:
        ids = tokens.ids
        before, after = (self._before, self._after) if adds_special else (0, 0)
        end = len(ids) - after
        room = max(0, most - before - after)
        plain = ids[before : before + room] if side == "right" else ids[end - room : end]
        return TextTokens(np.concatenate([ids[:before], plain, ids[end:]])[:most])

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(self._ids(text, adds_special=False)) for text in texts]

    def id_of(self, token: str) -> int | None:
        return self._ids_by_token.get(token)

    def decode(self, ids: Sequence[int], *, skips_special: bool = False) -> str:
        if not ids:
            return ""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=skips_special)
        return text


def _common(first: Ids, second: Ids) -> int:
    """Return the number of equal ids at the beginning of both."""
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return count


def open_tokenizer(load: EncoderLoad) -> TextTokenizer:
    """Open the tokenizer of a model's directory: tokenizer.json, else OpenVINO's own files.

    Raises:
        RuntimeError: it cannot be read.
    """
    file = Path(load.model_path) / "tokenizer.json"
    if file.is_file():
        return HuggingFaceTokenizer(load, file)
    return OpenvinoTokenizer(load)
