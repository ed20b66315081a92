"""``python -m tests.calculators.family_names`` prints ``calculators/kit/family_names.py``.

From what each family of nodes registers: each package of ``calculators`` with a function
``register``. Families of models name theirs in their `Task`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

from graph_runtime import Registry
from tests.support.checkout import ROOT

_HEAD: Final = '''\
"""The node types of families that are imported when a graph names one of them.

Made by `python -m tests.calculators.family_names`; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Calculators and subgraphs, by the family's package.
NAMES: Final[Mapping[str, frozenset[str]]] = {
'''


def families() -> list[str]:
    """Return the packages of the families."""
    paths = (ROOT / "calculators").rglob("__init__.py")
    return sorted(
        ".".join(path.relative_to(ROOT).parent.parts)
        for path in paths
        if "\ndef register(" in path.read_text(encoding="utf-8")
    )


def family_names() -> str:
    """Return the module's text."""
    parts = [_HEAD]
    for family in families():
        registry = Registry()
        import_module(family).register(registry)
        names = sorted({*registry.calculators(), *registry.subgraphs()})
        if len(names) == 1:
            parts.append(f'    "{family}": frozenset({{"{names[0]}"}}),\n')
            continue
        rows = "".join(f'            "{name}",\n' for name in names)
        parts.append(f'    "{family}": frozenset(\n        {{\n{rows}        }}\n    ),\n')
    return "".join([*parts, "}\n"])


if __name__ == "__main__":
    sys.stdout.write(family_names())
