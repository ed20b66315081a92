"""The model's process: ``python -m calculators.text.embeddings.process DESCRIPTOR PARENT``."""

import os
import sys

from calculators.text.embeddings.encoding import Embed
from calculators.text.text_models.process import run_text_model

if __name__ == "__main__":
    # Skips the libraries' destructors, which are slow.
    os._exit(
        run_text_model(
            sys.argv,
            Embed,
            "calculators.text.embeddings.encoding:encode",
            "calculators.text.text_models.heads:add_pooling",
        )
    )
