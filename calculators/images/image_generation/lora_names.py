"""The names of LoRA adapters and of their files, for the graph's options and the command line."""

from __future__ import annotations

import re
from typing import Final

ENDING: Final = ".safetensors"
#: The rule in OpenVINO Model Server's words, for errors.
ALIAS_RULE: Final = (
    "Alias must contain only alphanumeric characters, hyphens, underscores, or dots."
)
_ALIAS: Final = re.compile(r"[A-Za-z0-9._-]{1,256}", re.ASCII)


def is_alias(text: str) -> bool:
    """Return whether an adapter may have that name in requests."""
    return _ALIAS.fullmatch(text) is not None
