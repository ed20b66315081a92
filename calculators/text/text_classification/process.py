"""The model's process: ``python -m calculators.text.text_classification.process ...``."""

import os
import sys

from calculators.text.text_classification.encoding import Classify
from calculators.text.text_models.process import run_text_model

if __name__ == "__main__":
    # Skips the library's destructors, which are slow.
    os._exit(
        run_text_model(
            sys.argv,
            Classify,
            "calculators.text.text_classification.encoding:encode",
            "calculators.text.text_models.heads:add_classes",
        )
    )
