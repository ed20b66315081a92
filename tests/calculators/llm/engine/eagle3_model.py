"""An EAGLE-3 draft model for the demo model: its first layer, which also reads three others."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import openvino
import openvino.opset15 as ops

from tests.calculators.llm.demo_model import DEMO

#: Sizes of the demo model.
_HIDDEN = 256
_LAYERS = 4
#: The main model's layers weigh little, so that the draft layer works as it was trained.
_WEIGHT = 0.0005


def make_eagle3_model(folder: Path) -> Path:
    """Write the files; the layers have the names that the library looks for."""
    folder.mkdir(parents=True)
    model = openvino.Core().read_model(DEMO / "openvino_model.xml")
    nodes = {node.get_friendly_name(): node for node in model.get_ordered_ops()}
    first, last = (
        nodes[f"__module.model.layers.{layer}/aten::add/Add_1"] for layer in (0, _LAYERS - 1)
    )
    for target in list(last.output(0).get_target_inputs()):
        target.replace_source_output(first.output(0))
    embedding = nodes["__module.model.embed_tokens/aten::embedding/Gather"].output(0)
    readers = list(embedding.get_target_inputs())
    hidden = ops.parameter([-1, -1, -1], np.float32, name="hidden_states")
    hidden.output(0).set_names({"hidden_states"})
    weights = np.random.default_rng(0).normal(0, _WEIGHT, (_HIDDEN, 3 * _HIDDEN))
    joined = ops.matmul(hidden, ops.constant(weights.astype(np.float32)), False, True)
    both = ops.add(embedding, joined)
    for target in readers:
        target.replace_source_output(both.output(0))
    model.add_parameters([hidden])
    for sink in model.get_sinks():
        if not sink.get_variable_id().startswith("past_key_values.0."):
            model.remove_sink(sink)
    for variable in model.get_variables():
        if not variable.info.variable_id.startswith("past_key_values.0."):
            model.remove_variable(variable)
    first.set_friendly_name("__module.model.midlayer/aten::add/Add_1")
    model.set_rt_info(True, "eagle3_mode")
    model.set_rt_info([0, 1, 2], "hidden_layers_list")
    model.validate_nodes_and_infer_types()
    openvino.save_model(model, folder / "openvino_model.xml")
    for file in DEMO.glob("openvino_*tokenizer.*"):
        shutil.copy(file, folder)
    shutil.copy(DEMO / "config.json", folder)
    return folder
