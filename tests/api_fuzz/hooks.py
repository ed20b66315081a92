"""Hooks of schemathesis that turn its requests into ones that reach the models.

With a name of its own invention it would only ever see 404.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import cycle
from typing import Any, Final, cast

import schemathesis

from calculators.kit.requests.fields import whole
from tests.api_fuzz.acceptance import (
    documented_requests_are_accepted,
    undocumented_requests_are_refused,
)
from tests.api_fuzz.site import INPUT, MODEL, MODEL_OF, PASSED, SPARE, TEXT

__all__ = [
    "before_call",
    "documented_requests_are_accepted",
    "undocumented_requests_are_refused",
]

#: Answers are short: the checks are about how a request is parsed, not about how long a model
#: writes.
_LENGTHS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "min_tokens")
_MOST_TOKENS: Final = 4
#: The limit of endpoints whose requests need none.
_LENGTH_OF: Final = {
    "/chat/completions": "max_tokens",
    "/completions": "max_tokens",
    "/responses": "max_output_tokens",
    "/completion": "n_predict",
    "/infill": "n_predict",
}
#: The object that has the limit, and its name there.
_INNER_LENGTH_OF: Final = {
    "enerateContent": ("generationConfig", "maxOutputTokens"),
    "/api/chat": ("options", "num_predict"),
    "/api/generate": ("options", "num_predict"),
    "/generate": ("parameters", "max_new_tokens"),
    "/generate_stream": ("parameters", "max_new_tokens"),
}
#: With schemathesis's own values most requests would time out before they begin.
_LEAST_SECONDS: Final = 30
_MODELS: Final = cycle(("arithmetic", PASSED, MODEL))
#: Members of requests for images, and the most that a request may ask for: more is more work.
_MOST: Final = {
    **dict.fromkeys(("n", "num_images_per_prompt", "steps", "num_inference_steps"), 2),
    **dict.fromkeys(("width", "height"), 64),
}
_VERSION: Final = re.compile(r"^/(v[0-9]+/)*")


@schemathesis.hook  # type: ignore[untyped-decorator]
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Name models and inputs that exist, and request few tokens."""
    body = case.body if isinstance(case.body, dict) else {}
    path = case.operation.path
    for values in (body, case.query or {}):
        if isinstance(values.get("model"), str) and values["model"]:
            values["model"] = MODEL_OF.get(_VERSION.sub("", path), MODEL)
    if "/images/" in path:
        for name, most in _MOST.items():
            value = whole(body.get(name))
            if type(value) is int and most < value < 2**31:
                body[name] = most
    for ending, name in _LENGTH_OF.items():
        if path.endswith(ending) and (body.get(name) is None or _is_long(body[name])):
            body[name] = _MOST_TOKENS
    for ending, (place, name) in _INNER_LENGTH_OF.items():
        if path.endswith(ending) and body and "/v2/" not in path:
            if path == "/generate" and not body.keys().isdisjoint(("text", "input_ids")):
                place = "sampling_params"  # of SGLang, whose path it is too
            inner = body.setdefault(place, {})
            if isinstance(inner, dict) and (inner.get(name) is None or _is_long(inner[name])):
                inner[name] = _MOST_TOKENS
    for name in _LENGTHS:
        value = whole(body.get(name))
        if type(value) is int and _MOST_TOKENS < value < 2**32:
            body[name] = type(body[name])(_MOST_TOKENS)
    value = whole(body.get("max_length"))
    if type(value) is int and value > 1000:
        body["max_length"] = 1000
    if _is_short(body.get("timeout")):
        body["timeout"] = _LEAST_SECONDS
    with suppress(KeyError, ValueError):
        if _is_short(float(case.headers["X-Request-Timeout"])):
            case.headers["X-Request-Timeout"] = str(_LEAST_SECONDS)
    if "image[]" in body:  # a text for schemathesis, which knows files only by their exact names
        body.setdefault("image", body.pop("image[]"))
    if "/v2/" in path and path.endswith(("/generate", "/generate_stream")):
        _drop_arrays(body)
    if "/repository/" in path and "model" in case.path_parameters:
        case.path_parameters["model"] = SPARE
    elif "{model}:" in path:
        case.path_parameters["model"] = MODEL_OF.get(path[path.rindex(":") :], MODEL)
    elif "/models/{model}" in path:
        case.path_parameters["model"] = _model_for(body)
        if str(case.path_parameters.get("version")).isdecimal():
            case.path_parameters["version"] = "1"


def _drop_arrays(body: dict[str, Any]) -> None:
    """Leave out arrays that are not input of the model; a schema cannot know its inputs."""
    for name in [name for name, value in body.items() if isinstance(value, list)]:
        if name not in (TEXT, INPUT, "id", "parameters"):
            del body[name]


def _is_long(count: object) -> bool:
    """Return True if an answer of so many tokens is long; none or fewer are without a limit."""
    value = whole(count)
    return type(value) is int and not 0 < value <= _MOST_TOKENS and value < 2**31


def _is_short(seconds: object) -> bool:
    return type(seconds) in (int, float) and 0 < cast(float, seconds) < _LEAST_SECONDS


def _model_for(body: dict[str, Any]) -> str:
    """Return a model that may have these inputs."""
    inputs = body.get("inputs")
    first = inputs[0] if isinstance(inputs, list) and inputs else None
    if isinstance(first, dict) and isinstance(first.get("name"), str):
        if first["name"] == TEXT:
            return MODEL
        first["name"] = INPUT
        return PASSED
    return MODEL if TEXT in body else next(_MODELS)
