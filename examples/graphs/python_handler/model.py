"""The handler of graph.pbtxt. OpenVINO Model Server runs the same file, so the form is its own."""

import struct
from pathlib import Path

import numpy as np
from pyovms import Tensor


class OvmsPythonModel:
    """Turns scores into probabilities and labels. One object answers all requests."""

    def initialize(self, kwargs: dict) -> None:
        """Called once, when the graph is loaded: the place to load a model."""
        labels = Path(kwargs["base_path"]) / "labels.txt"
        self.labels = labels.read_text(encoding="utf-8").split()

    def execute(self, inputs: list) -> list:
        """Called for each request with the tensors of the node's inputs."""
        scores = np.array(inputs[0])  # a Tensor supports the buffer protocol
        if scores.ndim != 2 or scores.shape[1] != len(self.labels):
            raise ValueError(f"scores have the shape {scores.shape}, not (n, {len(self.labels)})")
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities = powers / powers.sum(axis=1, keepdims=True)
        labels = [self.labels[best] for best in probabilities.argmax(axis=1)]
        return [
            Tensor("probabilities_py", probabilities),
            # Texts are one buffer, each preceded by its length in four bytes.
            Tensor("labels", packed(labels), shape=[len(labels)], datatype="BYTES"),
        ]

    def finalize(self) -> None:
        """Called once, when the graph is unloaded."""


def packed(texts: list) -> bytes:
    """Return the data of a tensor of BYTES."""
    return b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)
