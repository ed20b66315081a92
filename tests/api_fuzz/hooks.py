"""Loaded by schemathesis: turns what it makes into requests that reach the models.

A name of its own invention would get 404, and that is all it would ever see.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import cycle
from typing import Any, Final, cast

import schemathesis

from tests.api_fuzz.site import INPUT, MODEL, PASSED, SPARE, TEXT

#: Answers are short: what counts is how a request is taken, not how long a model writes.
_LENGTHS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "min_tokens")
_MOST_TOKENS: Final = 4
#: With the times that it makes, most requests would be over before they begin.
_LEAST_SECONDS: Final = 30
_MODELS: Final = cycle(("arithmetic", PASSED, MODEL))


@schemathesis.hook  # type: ignore[untyped-decorator]
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Name models and inputs that are there, and ask for few tokens."""
    body = case.body if isinstance(case.body, dict) else {}
    if isinstance(body.get("model"), str) and body["model"]:
        body["model"] = MODEL
    for name in _LENGTHS:
        if type(body.get(name)) is int and _MOST_TOKENS < body[name] < 2**32:
            body[name] = _MOST_TOKENS
    if type(body.get("max_length")) is int and body["max_length"] > 1000:
        body["max_length"] = 1000
    if _is_short(body.get("timeout")):
        body["timeout"] = _LEAST_SECONDS
    with suppress(KeyError, ValueError):
        if _is_short(float(case.headers["X-Request-Timeout"])):
            case.headers["X-Request-Timeout"] = str(_LEAST_SECONDS)
    path = case.operation.path
    if "/repository/" in path and "model" in case.path_parameters:
        case.path_parameters["model"] = SPARE
    elif "/models/{model}" in path:
        case.path_parameters["model"] = _model_for(body)
        if str(case.path_parameters.get("version")).isdecimal():
            case.path_parameters["version"] = "1"


def _is_short(seconds: object) -> bool:
    return type(seconds) in (int, float) and 0 < cast(float, seconds) < _LEAST_SECONDS


def _model_for(body: dict[str, Any]) -> str:
    """One that may know these inputs; of the graph that knows one, the first is called so."""
    inputs = body.get("inputs")
    first = inputs[0] if isinstance(inputs, list) and inputs else None
    if isinstance(first, dict) and isinstance(first.get("name"), str):
        if first["name"] == TEXT:
            return MODEL
        first["name"] = INPUT
        return PASSED
    return MODEL if TEXT in body else next(_MODELS)
