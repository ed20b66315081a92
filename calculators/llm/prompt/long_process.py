"""A prompt process for long prompts: ``python -m calculators.llm.prompt.long_process``.

The same as ``process``, under a name that tells them apart in a list of processes.
"""

from __future__ import annotations

import sys

from calculators.llm.prompt.process import main

if __name__ == "__main__":
    sys.exit(main())
