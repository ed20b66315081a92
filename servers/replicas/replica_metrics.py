"""The metrics of replicas beside those of their front, each line with its replica."""

from __future__ import annotations

from collections.abc import Iterable

from servers.operations.metrics.exposition import MetricsText
from servers.operations.metrics.merged_text import MergedText

#: Metrics of replicas that are of use: those of engines and of nodes. The front counts requests.
_PREFIX = "graphrt_"


def merged(own: str, replicas: Iterable[tuple[str, str]], accept: str) -> MetricsText:
    """Return the metrics of a front and of replicas in the format that a client accepts.

    Args:
        own: the text of the front. Metrics that it has are not taken from replicas.
        replicas: the name and the text of each replica.
    """
    known = {line.split(" ", 3)[2] for line in own.splitlines() if line.startswith("# TYPE ")}
    text = MergedText()
    text.add(own)
    for replica, its_text in replicas:
        text.add("\n".join(_labelled(replica, its_text, known)))
    return text.text(accept)


def _labelled(replica: str, text: str, known: set[str]) -> Iterable[str]:
    is_taken = False
    for line in text.splitlines():
        if line.startswith("# "):
            name = line.split(" ", 3)[2]
            is_taken = name.startswith(_PREFIX) and name not in known
            if is_taken:
                yield line
        elif is_taken and line:
            head, _, value = line.rpartition(" ")
            name, _, labels = head.partition("{")
            rest = f",{labels}" if labels else "}"
            yield f'{name}{{replica="{replica}"{rest} {value}'
