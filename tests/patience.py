"""How long tests wait before they say that something hangs."""

from __future__ import annotations

from typing import Final

#: Seconds. Nothing takes so long, even on a machine that has twenty times as much to do as it can,
#: so this tells a test that hangs from one that is slow. Less than pytest's own limit per test, so
#: that a test says itself what it has waited for.
PATIENCE: Final = 240.0
