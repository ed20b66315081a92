"""`ModelDefaults`: defaults of requests, from a model's ``generation_config.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from graph_runtime import ResourceError
from graphrt_base.regular_file import MODEL_FILE_BYTES, read_regular_file

_T = TypeVar("_T")

# The engine computes with 32-bit floats: smaller numbers become 0, larger ones are refused.
_SMALLEST: Final = 1e-37
_LARGEST: Final = 1e38

GENERATION_CONFIG: Final = "generation_config.json"
MODEL_CONFIG: Final = "config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDefaults:
    """The fields of ``generation_config.json`` that are used; None if the file does not have one.

    ``do_sample``, ``num_beams`` and the seed are not used: the first follows from the temperature,
    the second is the request's ``best_of``, the third is fresh for every request. ``max_length`` is
    not used either, because many files have the default 20 of an old library in it. Source:
    OpenVINO Model Server ``llm/io_processing/base_generation_config_builder.cpp``.

    Attributes:
        top_k: 0 lets all tokens be sampled; with None 40 applies.
        eos_token_ids: the tokens that end a generation; from ``config.json`` if this file has none.
    """

    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    ignore_eos: bool | None = None
    stop_strings: tuple[str, ...] = ()
    include_stop_str_in_output: bool | None = None
    eos_token_ids: tuple[int, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    length_penalty: float | None = None


def read_generation_defaults(directory: Path) -> ModelDefaults:
    """Read a model's defaults. A model without the file has only end tokens.

    Raises:
        ResourceError: a file is not JSON, or a field has an impossible value; the text names the
            file and the field.
    """
    path = directory / GENERATION_CONFIG
    config = _read_object(path)
    fields = _ConfigFields(path, config)
    end_tokens = fields.read("eos_token_id", _token_ids, "a token id or an array of them")
    if end_tokens is None:
        model_path = directory / MODEL_CONFIG
        model_fields = _ConfigFields(model_path, _read_object(model_path))
        end_tokens = model_fields.read("eos_token_id", _token_ids, "a token id or an array of them")
    top_k = fields.read("top_k", _integer, "an integer")
    return ModelDefaults(
        max_new_tokens=fields.read("max_new_tokens", _positive, "a positive integer"),
        min_new_tokens=fields.read("min_new_tokens", _count, "an integer of at least 0"),
        ignore_eos=fields.read("ignore_eos", _boolean, "true or false"),
        stop_strings=fields.read("stop_strings", _strings, "an array of strings") or (),
        include_stop_str_in_output=fields.read(
            "include_stop_str_in_output", _boolean, "true or false"
        ),
        eos_token_ids=end_tokens or (),
        temperature=fields.read("temperature", _in_range(0, math.inf), "a number of at least 0"),
        top_p=fields.read("top_p", _in_range(_SMALLEST, 1), "a number above 0 and up to 1"),
        top_k=None if top_k is None or top_k < 0 else top_k,
        min_p=fields.read("min_p", _in_range(0, 1 - 1e-6), "a number from 0 to below 1"),
        repetition_penalty=fields.read(
            "repetition_penalty", _in_range(_SMALLEST, math.inf), "a number above 0"
        ),
        frequency_penalty=fields.read(
            "frequency_penalty", _in_range(-2, 2), "a number from -2 to 2"
        ),
        presence_penalty=fields.read("presence_penalty", _in_range(-2, 2), "a number from -2 to 2"),
        length_penalty=fields.read("length_penalty", _in_range(-math.inf, math.inf), "a number"),
    )


def _read_object(path: Path) -> dict[str, Any]:
    try:
        text = read_regular_file(path, MODEL_FILE_BYTES).decode()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ResourceError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ResourceError(f"{path}: is not UTF-8 at byte {error.start}") from error
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResourceError(f"{path}: is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ResourceError(f"{path}: is not a JSON object")
    return config


class _ConfigFields:
    """The fields of one file, read by converters that return None for values they refuse."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self._path = path
        self._config = config

    def read(self, name: str, convert: Callable[[Any], _T | None], expected: str) -> _T | None:
        value = self._config.get(name)
        if value is None:
            return None
        converted = convert(value)
        if converted is None:
            shown = json.dumps(value)[:80]
            raise ResourceError(f'{self._path}: "{name}" must be {expected}, not {shown}')
        return converted


def _boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _integer(value: Any) -> int | None:
    # Python programs write these files, so an integer may be 50.0.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and abs(value) < 2**31 else None


def _count(value: Any) -> int | None:
    count = _integer(value)
    return count if count is not None and count >= 0 else None


def _positive(value: Any) -> int | None:
    count = _integer(value)
    return count if count is not None and count > 0 else None


def _strings(value: Any) -> tuple[str, ...] | None:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
        return None
    return tuple(text for text in values if text)


def _token_ids(value: Any) -> tuple[int, ...] | None:
    values = value if isinstance(value, list) else [value]
    if not all(type(token) is int for token in values):
        return None
    # -1 stands for "none" in openvino-genai's own files.
    return tuple(token for token in values if token >= 0)


def _in_range(minimum: float, maximum: float) -> Callable[[Any], float | None]:
    def convert(value: Any) -> float | None:
        if type(value) is not int and type(value) is not float:
            return None
        if abs(value) < _SMALLEST:
            value = 0
        return float(value) if minimum <= value <= maximum and abs(value) < _LARGEST else None

    return convert
