"""The model's process: ``python -m calculators.embeddings.process DESCRIPTOR PARENT``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from calculators.child_process.answering_process import Report, run
from calculators.embeddings.messages import Load, Ready, Refused, to_model_decoder


def load(message: Load, report: Report) -> tuple[Ready, Callable[[Any], Any]]:
    """Load tokenizer and model."""
    # Imported here: the library takes long to load, and may be what is broken.
    from calculators.embeddings.embedding_model import EmbeddingModel

    model = EmbeddingModel(message, report)
    return Ready(model.size), model.embed


if __name__ == "__main__":
    # Skips the library's destructors, which are slow.
    descriptor, parent = map(int, sys.argv[1:])
    os._exit(run(descriptor, parent, to_model_decoder.decode, Load, load, Refused))
