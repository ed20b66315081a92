"""The model's process: ``python -m calculators.embeddings.process DESCRIPTOR PARENT``."""

from __future__ import annotations

import os
import sys

from calculators.embeddings.question import Embed
from calculators.text_models.process import run_text_model

if __name__ == "__main__":
    # Skips the libraries' destructors, which are slow.
    os._exit(
        run_text_model(
            sys.argv,
            Embed,
            "calculators.embeddings.encoding:encode",
            "calculators.embeddings.pooling:add_pooling",
        )
    )
