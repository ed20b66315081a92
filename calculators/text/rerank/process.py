"""The model's process: ``python -m calculators.text.rerank.process DESCRIPTOR PARENT``."""

import os
import sys

from calculators.text.rerank.encoding import RankQuestion
from calculators.text.text_models.process import run_text_model

if __name__ == "__main__":
    # Skips the library's destructors, which are slow.
    os._exit(
        run_text_model(
            sys.argv,
            RankQuestion,
            "calculators.text.rerank.encoding:encode",
            "calculators.text.text_models.heads:add_score",
        )
    )
