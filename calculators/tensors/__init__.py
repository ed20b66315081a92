"""Tensors: KServe's requests without a transport, plain models, OVMS's Python nodes."""

from __future__ import annotations
