"""Many random calls of each family's grammar, read back by its parser: for `make fuzz`.

python -m tests.calculators.llm.grammars.many_calls [COUNT]
"""

from __future__ import annotations

import sys

from tests.calculators.llm.grammars.test_call_grammars import NAMES, check_derivations

if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for name in NAMES:
        check_derivations(name, count)
        print(f"{name}: {count} answers with calls are read and valid", flush=True)
