"""Names of modules that nothing uses."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

ROOMS = ("bench", "calculators", "graph_runtime", "protos", "servers", "tests")
_WORD = re.compile(r"[A-Za-z_]\w*")
#: A private name, a type variable or a logger, declared by a statement without a decorator.
_OWN_NAME = re.compile(
    r"(?<!\))\n(?:(?:async )?def |class )?(?P<name>_(?!_)\w+|[A-Z]|log)(?: = |: |\()"
)
_DECORATED = re.compile(r"\n@[^\n]*(?=\n(?:async )?def |\nclass )")


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_module_keeps_to_itself_it_uses(room: str) -> None:
    unused: list[str] = []
    for file in sorted(Path(ROOT, room).rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        counts = Counter(_WORD.findall(text))
        names = _OWN_NAME.finditer(_DECORATED.sub("\n)", text))
        unused += [
            f"{file.relative_to(ROOT)}: {name}"
            for name in (match["name"] for match in names)
            if counts[name] == 1
        ]
    assert unused == []
