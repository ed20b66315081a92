"""Triton's extension for the repository of models: bodies of index, load and unload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rapidjson

from calculators.inference.place import quoted
from calculators.requests.http_payload import RequestError
from servers.contract.data_plane import IndexEntry
from servers.fronts.kserve_rest.json_member import kind_of, parameters_member, take_flag


def decode_index(value: object) -> bool:
    """Does the client want the models that are ready only? ``value``: None without a body.

    Raises:
        RequestError: it is no such request.
    """
    return bool(take_flag(_object(value), "ready", "the request"))


def encode_index(entries: Sequence[IndexEntry], *, ready_only: bool) -> bytes:
    """The lines of the index."""
    lines: list[dict[str, Any]] = [
        {"name": entry.name, "version": entry.version, "state": entry.state, "reason": entry.reason}
        for entry in entries
        if entry.state == "READY" or not ready_only
    ]
    return rapidjson.dumps(lines, ensure_ascii=False).encode()


def check_load(value: object) -> None:
    """Refuse to load anything else than what the server's configuration says.

    Raises:
        RequestError: there is a configuration or a file in the request, or it is none.
    """
    for name in parameters_member(_object(value), "the request"):
        raise RequestError(
            f"the request: the parameter {quoted(name)} is not supported; a model is loaded as the"
            " server's configuration says"
        )


def check_unload(value: object) -> None:
    """Refuse what cannot be meant: only ``unload_dependents``, which changes nothing here.

    Raises:
        RequestError: it is no such request.
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
