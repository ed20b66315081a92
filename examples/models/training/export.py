"""Exports the trained checkpoint as the files that a server needs."""

import json
import logging
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from openvino import save_model
from openvino_tokenizers import convert_tokenizer
from optimum.exporters.openvino import main_export  # type: ignore[import-untyped]
from optimum.intel import OVConfig  # type: ignore[import-untyped]

from .conversation import END_OF_TEXT, TEMPLATE, TURN_END
from .tokenizer import saved_tokenizer, token_id

log = logging.getLogger("export")
GRAPH = Path(__file__).parent / "graph.pbtxt"
TEXT_TASK = "text-generation-with-past"
DRAFT_FILES = (
    "config.json",
    "generation_config.json",
    "openvino_model.xml",
    "openvino_model.bin",
    "openvino_tokenizer.xml",
    "openvino_tokenizer.bin",
    "openvino_detokenizer.xml",
    "openvino_detokenizer.bin",
)


def export(
    checkpoint: Path,
    target: Path,
    *,
    task: str = TEXT_TASK,
    more: Mapping[str, object] | None = None,
) -> None:
    """Write the files of `target` again, with fp16 weights; other files in it stay.

    `task`: optimum's name of the model's task. `more`: JSON files by name.
    """
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        _export_model(checkpoint, scratch, task)
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
        for file_name, value in {"generation_config.json": generation, **(more or {})}.items():
            (scratch / file_name).write_text(json.dumps(value, indent=2) + "\n")
        shutil.copy(GRAPH, scratch / "graph.pbtxt")
        for file in scratch.iterdir():
            if file.suffix == ".xml":
                _forget_paths(file, (checkpoint, scratch))
            shutil.copy(file, target / file.name)
            log.info("%9d bytes  %s", file.stat().st_size, file.name)


def export_draft(checkpoint: Path, main: Path, target: Path) -> None:
    """Write the draft model into `target`, with the tokenizer of the model in `main`."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        _export_model(checkpoint, scratch, TEXT_TASK)
        _forget_paths(scratch / "openvino_model.xml", (checkpoint, scratch))
        for tokenizer in ("openvino_tokenizer", "openvino_detokenizer"):
            for suffix in (".xml", ".bin"):
                shutil.copy(main / f"{tokenizer}{suffix}", scratch)
        shutil.copy(main / "generation_config.json", scratch)
        for file in DRAFT_FILES:
            shutil.copy(scratch / file, target / file)
            log.info("%9d bytes  %s", (target / file).stat().st_size, file)


def _export_model(checkpoint: Path, target: Path, task: str) -> None:
    main_export(
        str(checkpoint),
        target,
        task=task,
        ov_config=OVConfig(dtype="fp16"),
        convert_tokenizer=False,
    )
    (target / "openvino_config.json").unlink(missing_ok=True)


def _forget_paths(xml: Path, paths: tuple[Path, ...]) -> None:
    """Remove the paths of this machine that the converters write into the file."""
    text = xml.read_text(encoding="utf-8")
    for path in paths:
        text = text.replace(str(path), ".")
    text = re.sub(r'value="(/[\w.+-]+)+/?"', 'value="."', text)
    xml.write_text(text, encoding="utf-8")
