"""`OpenvinoTokenizer`: openvino_tokenizer.xml, for models without a tokenizer.json."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
import openvino_genai as genai

from calculators.text.text_models.encoded import Ids, InputError, Tokens
from calculators.text.text_models.messages import Load
from calculators.text.text_models.text_tokenizer import Side, TextTokenizer


class OpenvinoTokenizer(TextTokenizer):
    """The tokenizer that OpenVINO runs. It knows neither pairs nor the characters of a token."""

    def __init__(self, load: Load) -> None:
        """Read the files.

        Raises:
            RuntimeError: the library's.
        """
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
        self._behind = _common(first[::-1], second[::-1])

    def _ids(self, text: str, *, adds_special: bool) -> Ids:
        # An empty list ends the process, and so texts are encoded one by one.
        encoded = self._tokenizer.encode(text, add_special_tokens=adds_special)
        return np.array(encoded.input_ids.data, dtype=np.int64).reshape(-1)

    def encode(self, texts: Sequence[str], *, adds_special: bool = True) -> list[Tokens]:
        return [Tokens(self._ids(text, adds_special=adds_special)) for text in texts]

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
        for place, (ids, _) in enumerate(made):
            if len(ids) > most:
                before, behind = (self._before, self._behind) if adds_special else (0, 0)
                end = len(ids) - behind
                room = max(0, most - before - behind)
                plain = ids[before : before + room] if side == "right" else ids[end - room : end]
                cut = np.concatenate([ids[:before], plain, ids[end:]])
                made[place] = Tokens(cut[:most])
        return made

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
        raise InputError(
            "the model's directory has no tokenizer.json, which pairs of texts need",
            code="FAILED_PRECONDITION",
        )

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(self._ids(text, adds_special=False)) for text in texts]

    def offsets(self, text: str, *, adds_special: bool = True) -> list[tuple[int, int]]:
        raise InputError(
            "the model's directory has no tokenizer.json, which offsets need", "return_offsets"
        )

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
