"""Turns the trained checkpoint into the files that a server needs."""

from __future__ import annotations

import json
import logging
import re
import shutil
import tempfile
from pathlib import Path

from openvino import save_model
from openvino_tokenizers import convert_tokenizer
from optimum.exporters.openvino import main_export  # type: ignore[import-untyped]
from optimum.intel import OVConfig  # type: ignore[import-untyped]

from ..training.conversation import END_OF_TEXT, TEMPLATE, TURN_END
from ..training.tokenizer import saved_tokenizer, token_id
from .patches import FRAMES, LEAST, MERGE, MOST, PATCH

log = logging.getLogger("export")
GRAPH = Path(__file__).parents[1] / "training" / "graph.pbtxt"


def export(checkpoint: Path, target: Path) -> None:
    """Writes the files of ``target`` anew, weights as fp16; others that are there stay."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        main_export(
            str(checkpoint),
            scratch,
            task="image-text-to-text",
            ov_config=OVConfig(dtype="fp16"),
            convert_tokenizer=False,
        )
        (scratch / "openvino_config.json").unlink(missing_ok=True)
        tokenizer = saved_tokenizer(checkpoint)
        tokenizer.chat_template = TEMPLATE.read_text(encoding="utf-8")
        tokenizer.save_pretrained(scratch)
        encoder, decoder = convert_tokenizer(
            tokenizer, with_detokenizer=True, skip_special_tokens=True, add_special_tokens=False
        )
        save_model(encoder, scratch / "openvino_tokenizer.xml")
        save_model(decoder, scratch / "openvino_detokenizer.xml")
        del encoder, decoder
        ends = [token_id(tokenizer, text) for text in (TURN_END, END_OF_TEXT)]
        generation = {
            "do_sample": False,
            "eos_token_id": ends,
            "pad_token_id": ends[1],
            "temperature": 0.0,
        }
        _write(scratch / "generation_config.json", generation)
        _write(scratch / "preprocessor_config.json", _preprocessing())
        shutil.copy(GRAPH, scratch / "graph.pbtxt")
        for file in scratch.iterdir():
            if file.suffix == ".xml":
                _forget_paths(file, (checkpoint, scratch))
            shutil.copy(file, target / file.name)
            log.info("%9d bytes  %s", file.stat().st_size, file.name)


def _preprocessing() -> dict[str, object]:
    """What Qwen2VLImageProcessor would write: every picture becomes small."""
    return {
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_processor_type": "Qwen2VLImageProcessor",
        "image_std": [0.5, 0.5, 0.5],
        "max_pixels": MOST,
        "merge_size": MERGE,
        "min_pixels": LEAST,
        "patch_size": PATCH,
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {"longest_edge": MOST, "shortest_edge": LEAST},
        "temporal_patch_size": FRAMES,
    }


def _write(file: Path, value: dict[str, object]) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _forget_paths(xml: Path, paths: tuple[Path, ...]) -> None:
    """The converters write into the file where they found things."""
    text = xml.read_text(encoding="utf-8")
    for path in paths:
        text = text.replace(str(path), ".")
    text = re.sub(r'value="(/[\w.+-]+)+/?"', 'value="."', text)
    xml.write_text(text, encoding="utf-8")
