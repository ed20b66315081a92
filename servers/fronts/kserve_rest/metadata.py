"""`ModelMetadata` -> JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from servers.contract.data_plane import ModelMetadata, TensorMetadata


def describe_model(metadata: ModelMetadata) -> dict[str, Any]:
    """Return the body of a model's metadata.

    ``optional`` marks inputs that may be left out, which KServe's protocol cannot express.
    ``rt_info`` is OpenVINO Model Server's; it is present if the model's file has any.
    """
    described: dict[str, Any] = {
        "name": metadata.name,
        "versions": list(metadata.versions),
        "platform": metadata.platform,
        "inputs": _describe(metadata.inputs),
        "outputs": _describe(metadata.outputs),
    }
    if metadata.rt_info:
        described["rt_info"] = dict(metadata.rt_info)
    return described


def _describe(tensors: Sequence[TensorMetadata]) -> list[dict[str, Any]]:
    described: list[dict[str, Any]] = []
    for tensor in tensors:
        entry: dict[str, Any] = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
        }
        if tensor.is_optional:
            entry["optional"] = True
        described.append(entry)
    return described
