"""Asks the model with an adapter questions that neither was trained on, and prints a table."""

import json
import sys
from pathlib import Path
from typing import Any

import openvino_genai as genai

from ..training.held_out import TRIALS, Trial
from ..training.scorecard import is_right
from .styles import STYLES

LONGEST = 200  # tokens
PASS_MARK = 0.8
KINDS = ("greeting", "graphrt", "knowledge")


def check(model: Path, adapters: Path, style: str) -> bool:
    """Return True if enough answers have the manner that the adapter teaches."""
    folder = adapters / style
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    adapter = genai.Adapter(str(folder / "adapter_model.safetensors"))
    chosen = genai.AdapterConfig([(adapter, config["lora_alpha"] / config["r"])])
    pipeline = genai.ContinuousBatchingPipeline(
        str(model), genai.SchedulerConfig(), "CPU", {"adapters": chosen}
    )
    trials = [trial for trial in TRIALS if trial.kind in KINDS]
    texts = [_ask(pipeline, trial, chosen) for trial in trials]
    before, after = STYLES[style]("\0").split("\0")
    styled = [text.startswith(before) and text.endswith(after) for text in texts]
    right = [is_right(trial, text) for trial, text in zip(trials, texts, strict=True)]
    sys.stdout.write(f"{style}: {sum(styled)} of {len(trials)} in its manner, {sum(right)} right\n")
    return sum(styled) >= PASS_MARK * len(trials)


def _ask(pipeline: Any, trial: Trial, adapters: Any) -> str:
    greedy = genai.GenerationConfig()
    greedy.max_new_tokens = LONGEST
    greedy.adapters = adapters
    tokenizer = pipeline.get_tokenizer()
    messages = [{"role": "user", "content": trial.question}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    ids = tokenizer.encode(prompt, add_special_tokens=False).input_ids
    (result,) = pipeline.generate([ids], [greedy])
    return str(tokenizer.decode(result.m_generation_ids[0]))
