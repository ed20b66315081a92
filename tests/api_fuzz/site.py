"""Models of the fuzzed server: one of each task, a graph of tensors, a graph that is reloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.calculators.images.image_generation import image_models
from tests.calculators.speech.text_to_speech import tone_model
from tests.support.checkout import ROOT

#: A language model, and the name of its input in KServe.
MODEL: Final = "demo"
TEXT: Final = "text_input"
#: A graph that returns its one input.
PASSED: Final = "passed"
INPUT: Final = "in"
#: The same graph, which is loaded and unloaded all the time.
SPARE: Final = "spare"
#: Examples of models of other tasks.
_EMBEDDER, _RANKER, _CLASSIFIER, _LISTENER = "docs_embedder", "docs_ranker", "guard", "counter"
#: Models that draw and speak.
_ARTIST, _VOICE = "tiny", "tones"
#: The model that a path reaches, by the last part of the path; `MODEL` for others.
MODEL_OF: Final = {
    **dict.fromkeys(("embeddings", "embed", "embeddings/tokenize"), _EMBEDDER),
    **dict.fromkeys(("api/embed", "api/embeddings", "api/v0/embeddings"), _EMBEDDER),
    **dict.fromkeys((":embedContent", ":batchEmbedContents"), _EMBEDDER),
    **dict.fromkeys(("rerank", "score", "rerank/tokenize"), _RANKER),
    **dict.fromkeys(("classify", "predict", "moderations"), _CLASSIFIER),
    **dict.fromkeys(("images/generations", "images/edits", "images/variations"), _ARTIST),
    **dict.fromkeys(("audio/transcriptions", "audio/translations", "realtime"), _LISTENER),
    **dict.fromkeys(("audio/speech", "audio/voices"), _VOICE),
}

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
    tone_model.make_model(folder / _VOICE, text=tone_model.graph())
    image_models.make_model(folder / _ARTIST, text=image_models.graph())
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
        *({"name": name} for name in (SPARE, _VOICE, _ARTIST)),
    ]
    models = [
        {"config": {"name": name, "base_path": str(examples / "models" / name)}}
        for name in (_EMBEDDER, _RANKER, _CLASSIFIER, _LISTENER)
    ]
    config = folder / "config.json"
    config.write_text(json.dumps({"model_config_list": models, "mediapipe_config_list": graphs}))
    return config
