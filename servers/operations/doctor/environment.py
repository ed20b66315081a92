"""Variables of the environment that affect a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from servers.operations.doctor.section import Section

_PREFIXES: Final = ("GRAPHRT_", "OVMS_", "OTEL_", "OPENVINO_", "OV_", "GRPC_", "OMP_", "KMP_")
_NAMES: Final = (
    *("API_KEY", "LD_PRELOAD", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX", "PYTHONPATH"),
    *("PYTHONMALLOC", "PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE", "TMPDIR", "NO_PROXY"),
    *("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
#: Variables whose values cannot be secret. Only the names of others are shown.
_HARMLESS: Final = frozenset(
    {
        "GRPC_ENABLE_FORK_SUPPORT",
        "GRPC_VERBOSITY",
        "MALLOC_ARENA_MAX",
        "OMP_NUM_THREADS",
        "OTEL_SDK_DISABLED",
        "OTEL_TRACES_SAMPLER",
        "PYTHONMALLOC",
        "PYTHONOPTIMIZE",
    }
)


def environment(variables: Mapping[str, str]) -> Section:
    """List the variables that are set, with the few values that cannot be secret."""
    section = Section("environment")
    for name in sorted(variables):
        if name in _NAMES or name.startswith(_PREFIXES):
            value = variables[name]
            is_shown = name in _HARMLESS or not value
            section.facts[name] = (value or "(empty)") if is_shown else "(set)"
    return section
