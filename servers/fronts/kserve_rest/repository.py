"""Triton's extension for the repository of models: bodies of index, load and unload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rapidjson

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference.place import quoted
from servers.contract.data_plane import IndexEntry
from servers.fronts.kserve_rest.json_member import kind_of, parameters_member, take_flag


def decode_index(value: object) -> bool:
    """Return whether the client wants only models that are ready. ``value``: None without a body.

    Raises:
        RequestError: the body is invalid.
    """
    return bool(take_flag(_object(value), "ready", "the request"))


def encode_index(entries: Sequence[IndexEntry], *, ready_only: bool) -> bytes:
    """Return the body of the index."""
    lines: list[dict[str, Any]] = [
        {"name": entry.name, "version": entry.version, "state": entry.state, "reason": entry.reason}
        for entry in entries
        if entry.state == "READY" or not ready_only
    ]
    return rapidjson.dumps(lines, ensure_ascii=False).encode()


def check_load(value: object) -> None:
    """Check a request to load a model, which must not change its configuration.

    Raises:
        RequestError: the body contains a configuration or a file, or is invalid.
    """
    for name in parameters_member(_object(value), "the request"):
        raise RequestError(
            f"the request: the parameter {quoted(name)} is not supported; a model is loaded as the"
            " server's configuration says"
        )


def check_unload(value: object) -> None:
    """Check a request to unload a model. ``unload_dependents`` is accepted and changes nothing.

    Raises:
        RequestError: the body has another parameter, or is invalid.
    """
    parameters = parameters_member(_object(value), "the request")
    take_flag(parameters, "unload_dependents", "the request")
    for name in parameters:
        raise RequestError(f"the request: the parameter {quoted(name)} is not supported")


def _object(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RequestError(f"the body must be a JSON object, not {kind_of(value)}")
    return value
