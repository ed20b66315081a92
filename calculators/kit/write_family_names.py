"""``python -m calculators.kit.write_family_names`` prints ``calculators/kit/family_names.py``.

From what each family registers. A new family is written into `FAMILIES`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

from graph_runtime import Registry

#: Families that are imported when a graph names one of their nodes.
FAMILIES: Final = (
    "language.answer_cache",
    "core",
    "language.ensemble",
    "images.image",
    "language.moderation",
    "tensors.openvino",
    "tensors.python",
    "language.redaction",
    "language.retrieval",
    "language.routing",
    "language.server_tools",
    "vision",
)
_HEAD: Final = '''\
"""The node types of families that are imported when a graph names one of them.

Made by `python -m calculators.kit.write_family_names`; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Calculators and subgraphs, by the family's package.
NAMES: Final[Mapping[str, frozenset[str]]] = {
'''


def family_names() -> str:
    """Return the module's text."""
    parts = [_HEAD]
    for family in FAMILIES:
        registry = Registry()
        import_module(f"calculators.{family}").register(registry)
        names = sorted({*registry.calculators(), *registry.subgraphs()})
        if len(names) == 1:
            parts.append(f'    "calculators.{family}": frozenset({{"{names[0]}"}}),\n')
            continue
        rows = "".join(f'            "{name}",\n' for name in names)
        parts.append(
            f'    "calculators.{family}": frozenset(\n        {{\n{rows}        }}\n    ),\n'
        )
    return "".join([*parts, "}\n"])


if __name__ == "__main__":
    sys.stdout.write(family_names())
