"""Turns the trained checkpoint into the files that a server needs."""

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

from .conversation import END_OF_TEXT, TEMPLATE, TURN_END
from .tokenizer import saved_tokenizer, token_id

log = logging.getLogger("export")
GRAPH = Path(__file__).parent / "graph.pbtxt"


def export(checkpoint: Path, target: Path) -> None:
    """Writes the files of `target` anew, weights as fp16; a README.md that is there stays."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        main_export(
            str(checkpoint),
            scratch,
            task="text-generation-with-past",
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
        (scratch / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
        shutil.copy(GRAPH, scratch / "graph.pbtxt")
        for file in scratch.iterdir():
            if file.suffix == ".xml":
                _forget_paths(file, (checkpoint, scratch))
            shutil.copy(file, target / file.name)
            log.info("%9d bytes  %s", file.stat().st_size, file.name)


def _forget_paths(xml: Path, paths: tuple[Path, ...]) -> None:
    """The converters write into the file where they found things."""
    text = xml.read_text(encoding="utf-8")
    for path in paths:
        text = text.replace(str(path), ".")
    text = re.sub(r'value="(/[\w.+-]+)+/?"', 'value="."', text)
    xml.write_text(text, encoding="utf-8")
