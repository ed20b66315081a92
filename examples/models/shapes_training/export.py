"""Exports the trained weights as an OpenVINO model in the layout of a model repository."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import openvino
import torch

from .detector import Detector
from .pictures import LABELS, SIZE

log = logging.getLogger("export")


def export(weights: Path, target: Path) -> None:
    """Write ``target/1/model.xml`` and ``.bin`` with fp16 weights, and ``target/labels.txt``."""
    model = Detector()
    model.load_state_dict(torch.load(weights))
    example = torch.from_numpy(np.zeros((1, SIZE, SIZE, 3), np.float32))
    found = openvino.convert_model(model.eval(), example_input=example, input=[1, SIZE, SIZE, 3])
    found.inputs[0].set_names({"image"})
    found.outputs[0].set_names({"boxes"})
    found.outputs[1].set_names({"scores"})
    folder = target / "1"
    folder.mkdir(parents=True, exist_ok=True)
    openvino.save_model(found, folder / "model.xml", compress_to_fp16=True)
    (target / "labels.txt").write_text("".join(f"{label}\n" for label in LABELS))
    for file in sorted(folder.iterdir()):
        log.info("%9d bytes  %s", file.stat().st_size, file.name)
