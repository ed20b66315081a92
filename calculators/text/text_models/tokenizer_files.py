"""The choice of a tokenizer by the files of a model's directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from calculators.text.text_models.encoded import InputError, Tokens
from calculators.text.text_models.messages import Load
from calculators.text.text_models.text_tokenizer import Side, TextTokenizer


class HuggingFaceTokenizer(TextTokenizer):
    """The tokenizer of a tokenizer.json.

    Only ``encode_batch`` and its sister let other threads run meanwhile, so single texts go through
    them too. Truncation is done here: the library keeps it as a setting for all callers.
    """

    def __init__(self, load: Load, file: Path) -> None:
        """Read the file.

        Raises:
            RuntimeError: it is no tokenizer.
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

    def encode(self, texts: Sequence[str], *, adds_special: bool = True) -> list[Tokens]:
        batch = self._tokenizer.encode_batch_fast(texts, add_special_tokens=adds_special)
        return [_tokens(each) for each in batch]

    def encode_cut(
        self,
        texts: Sequence[str],
        *,
        most: int | None = None,
        side: Side = "right",
        adds_special: bool = True,
    ) -> list[Tokens]:
        most = self.max_tokens if most is None else most
        made = self.encode(texts, adds_special=adds_special)
        for place, tokens in enumerate(made):
            if len(tokens.ids) > most:
                made[place] = self._cut(texts[place], most, side, adds_special)
        return made

    def _cut(self, text: str, most: int, side: Side, adds_special: bool) -> Tokens:
        (plain,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        plain.truncate(max(0, most - self._special * adds_special), direction=side)
        tokens = _tokens(self._tokenizer.post_process(plain, None, adds_special))
        return Tokens(tokens.ids[:most], None if tokens.types is None else tokens.types[:most])

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
    ) -> list[list[Tokens]]:
        most = self.max_tokens if most is None else most
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


def _tokens(encoding: Any) -> Tokens:
    types = encoding.type_ids
    # Texts alone have segment 0 only, with nearly every model.
    return Tokens(
        np.array(encoding.ids, np.int64), np.array(types, np.int64) if any(types) else None
    )


def open_tokenizer(load: Load) -> TextTokenizer:
    """Open the tokenizer of a model's directory: tokenizer.json, else OpenVINO's own files.

    Raises:
        RuntimeError: it cannot be read.
    """
    file = Path(load.model_path) / "tokenizer.json"
    if file.is_file():
        return HuggingFaceTokenizer(load, file)
    # Imported here: genai takes long to load, and nearly no model needs it.
    from calculators.text.text_models.openvino_tokenizer import OpenvinoTokenizer

    return OpenvinoTokenizer(load)
