"""Requests of KServe's clients, as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.servers.fronts.http.http_client import Reply, request_bytes

JSON_TYPE = {"Content-Type": "application/json"}


def post(path: str, value: object = None, headers: Mapping[str, str] | None = None) -> bytes:
    """Return a request with a JSON body; without a body if ``value`` is None."""
    body = b"" if value is None else json.dumps(value).encode()
    return request_bytes("POST", path, body, {**JSON_TYPE, **(headers or {})})


def numbers(*elements: float, **members: Any) -> dict[str, Any]:
    """Return an input ``x`` of FP32 in JSON."""
    shape = [len(elements)]
    return {"name": "x", "datatype": "FP32", "shape": shape, "data": list(elements), **members}


def binary_body(value: Mapping[str, Any], *tensors: bytes) -> tuple[bytes, dict[str, str]]:
    """Return a body with binary data, and its headers."""
    head = json.dumps(value).encode()
    return head + b"".join(tensors), {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(head)),
    }


def binary_infer(
    array: NDArray[Any], datatype: str, *, headers: Mapping[str, str] | None = None
) -> bytes:
    """Return an inference of one tensor, in binary both ways."""
    raw = array.tobytes()
    tensor = {"name": "x", "datatype": datatype, "shape": array.shape}
    value = {
        "parameters": {"binary_data_output": True},
        "inputs": [{**tensor, "parameters": {"binary_data_size": len(raw)}}],
    }
    body, own = binary_body(value, raw)
    return request_bytes("POST", "/v2/models/echo/infer", body, {**own, **(headers or {})})


def tail_of(reply: Reply) -> bytes:
    """Return the binary data of an answer."""
    return reply.body[int(reply.headers["inference-header-content-length"]) :]


def floats_of(reply: Reply) -> list[float]:
    found: list[float] = np.frombuffer(tail_of(reply), "<f4").tolist()
    return found
