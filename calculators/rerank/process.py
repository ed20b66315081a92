"""The model's process: ``python -m calculators.rerank.process DESCRIPTOR PARENT``."""

from __future__ import annotations

import os
import sys

from calculators.rerank.messages import RankQuestion
from calculators.text_models.process import run_text_model

if __name__ == "__main__":
    # Skips the library's destructors, which are slow.
    os._exit(
        run_text_model(
            sys.argv,
            RankQuestion,
            "calculators.rerank.encoding:encode",
            "calculators.rerank.head:build_head",
        )
    )
