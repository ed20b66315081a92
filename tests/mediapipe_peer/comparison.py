"""Differences between two answers."""

from __future__ import annotations

from typing import Any


def differences(here: dict[str, Any], there: dict[str, Any]) -> list[str]:
    """Return every difference that an application could notice, in words; none if they agree."""
    if there.get("died", "").startswith("signal") and "died" not in here:
        # One of MediaPipe's CHECKs failed, which ends the process: there is nothing to compare.
        return []
    if "died" in here or "died" in there:
        if here.get("died") == there.get("died"):
            return []
        return [f"graphrt: {here.get('died', 'ran')}; MediaPipe: {there.get('died', 'ran')}"]
    if bool(here["refused"]) != bool(there["refused"]):
        return [
            f"refused by graphrt: {here['refused']}",
            f"refused by MediaPipe: {there['refused']}",
        ]
    if here["refused"]:
        return []
    found = []
    if here["nodes"] != there["nodes"]:
        found.append(f"nodes of graphrt:   {here['nodes']}\nnodes of MediaPipe: {there['nodes']}")
    for number, (ours, theirs) in enumerate(zip(here["runs"], there["runs"], strict=True)):
        found += [
            f"run {number}: {line}"
            for line in _differences_of_runs(ours, theirs, is_first=number == 0)
        ]
    return found


def _differences_of_runs(
    ours: dict[str, Any], theirs: dict[str, Any], *, is_first: bool
) -> list[str]:
    found = []
    for number, (mine, other) in enumerate(zip(ours["errors"], theirs["errors"], strict=False)):
        if bool(mine) != bool(other):
            found.append(f"step {number}: error of graphrt: {mine}; of MediaPipe: {other}")
    has_failed = any(theirs["errors"])
    for name, seen in ours["observed"].items():
        wanted = theirs["observed"][name]
        if has_failed:
            # How far other nodes get after an error is undefined. A calculator's error ends its
            # call at once here, and with the call in MediaPipe.
            seen, wanted = _packets(seen), _packets(wanted)
            shorter = min(len(seen), len(wanted))
            seen, wanted = seen[:shorter], wanted[:shorter]
        if not is_first:
            # MediaPipe's observers remember the settled timestamp of the run before, and report no
            # bound below it (``OutputStreamObserver::last_processed_ts_`` is never reset).
            seen, wanted = _packets(seen), _packets(wanted)
        if not _same(seen, wanted):
            found.append(f"stream {name}:\n  graphrt:   {seen}\n  MediaPipe: {wanted}")
    has_started = not theirs["errors"][0]
    for name, value in ours["sides"].items() if has_started else ():
        if not _same(value, theirs["sides"][name]):
            found.append(f"side packet {name}: {value} here, {theirs['sides'][name]} there")
    return found


def _packets(entries: list[Any]) -> list[Any]:
    return [entry for entry in entries if isinstance(entry, str) or entry[1] is not None]


def _same(a: Any, b: Any) -> bool:
    if a == ["<opaque>"] or b == ["<opaque>"]:
        # A type that MediaPipe's Python binding cannot read.
        return a is not None and b is not None
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and bool(a == b)


def wordings(here: dict[str, Any], there: dict[str, Any]) -> list[tuple[str, str]]:
    """Return pairs of error messages for the same thing."""
    if here.get("refused") and there.get("refused"):
        return [(here["refused"], there["refused"])]
    pairs = []
    for ours, theirs in zip(here.get("runs", ()), there.get("runs", ()), strict=False):
        pairs += [
            (mine, other)
            for mine, other in zip(ours["errors"], theirs["errors"], strict=False)
            if mine and other
        ]
    return pairs
