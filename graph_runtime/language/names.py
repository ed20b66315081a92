"""Names of nodes: canonical ones, which are unique, and those in messages about edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


def canonical_names(nodes: Iterable[Any]) -> list[str]:
    """``name`` or else ``calculator``; where several nodes share it, all get ``_1``, ``_2`` ...

    Source: MediaPipe ``framework/tool/name_util.cc``.
    """
    bases = [node.name or node.calculator for node in nodes]
    totals = Counter(bases)
    seen: Counter[str] = Counter()
    names = []
    for base in bases:
        seen[base] += 1
        names.append(f"{base}_{seen[base]}" if totals[base] > 1 else base)
    return names


def debug_name(node: Any) -> str:
    """``name``, or ``[Calc, input stream: a, and output streams: <b,c>]``."""
    if node.name:
        return str(node.name)
    inputs = _listing("input stream", node.input_stream)
    outputs = _listing("output stream", node.output_stream)
    return f"[{node.calculator}, {inputs}, and {outputs}]"


def _listing(what: str, entries: Iterable[str]) -> str:
    names = list(entries)
    if not names:
        return f"no {what}s"
    if len(names) == 1:
        return f"{what}: {names[0]}"
    return f"{what}s: <{','.join(names)}>"
