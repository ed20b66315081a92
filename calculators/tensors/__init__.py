"""Tensors: KServe's requests without a transport, plain models, OVMS's Python nodes."""
