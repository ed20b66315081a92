"""Runs of pytest that tests start."""

from __future__ import annotations

from typing import Final

#: Words for a run outside the checkout: plug-ins that libraries bring take most of its time.
WITHOUT_PLUGINS: Final = (
    *("-p", "no:cacheprovider"),
    *("-p", "no:langsmith_plugin"),
    *("-p", "no:schemathesis"),
)
