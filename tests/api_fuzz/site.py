"""Models of the fuzzed server: a language model, a graph of tensors, a graph that is reloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.support.checkout import ROOT

#: A language model, and the name of its input in KServe.
MODEL: Final = "demo"
TEXT: Final = "text_input"
#: A graph that returns its one input.
PASSED: Final = "passed"
INPUT: Final = "in"
#: The same graph, which is loaded and unloaded all the time.
SPARE: Final = "spare"

_PASS_THROUGH: Final = f"""\
input_stream: "{INPUT}"
output_stream: "out"
node {{ calculator: "PassThroughCalculator" input_stream: "{INPUT}" output_stream: "out" }}
"""


def make_site(folder: Path) -> Path:
    """Write a configuration into ``folder``; return its path."""
    for name in (SPARE, PASSED):
        (folder / name).mkdir()
        (folder / name / "graph.pbtxt").write_text(_PASS_THROUGH)
    examples = ROOT / "examples"
    arithmetic = examples / "graphs" / "arithmetic"
    graphs = [
        {"name": MODEL, "base_path": str(examples / "models" / "demo")},
        {
            "name": "arithmetic",
            "base_path": str(arithmetic),
            "python_path": str(arithmetic / "arithmetic.py"),
        },
        {"name": PASSED},
        {"name": SPARE},
    ]
    config = folder / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": graphs}))
    return config
