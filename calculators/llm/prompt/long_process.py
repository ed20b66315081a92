"""A prompt process for long prompts: ``python -m calculators.llm.prompt.long_process``.

The same program as ``process``, under a name of its own in lists of processes.
"""

from __future__ import annotations

import sys

from calculators.llm.prompt.process import main

if __name__ == "__main__":
    sys.exit(main())
