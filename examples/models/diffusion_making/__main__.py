"""Make tiny diffusion models of random weights: ``python -m examples.models.diffusion_making DIR``.

They draw noise, but take and give everything that a large one does, in milliseconds. DIR gets
``sd``, a Stable Diffusion pipeline, and ``lcm``, the parts in which a latent consistency model
differs from it. Needs the extra ``export`` and diffusers 0.39.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import openvino as ov
import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    LatentConsistencyModelPipeline,
    LCMScheduler,
    StableDiffusionPipeline,
    UNet2DConditionModel,
)
from openvino_tokenizers import convert_tokenizer
from optimum.exporters.openvino import main_export
from optimum.intel import OVConfig
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, CLIPTokenizerFast

_SEED: Final = 7
_HIDDEN: Final = 16
_NOISE: Final = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
_START, _END = "<|startoftext|>", "<|endoftext|>"
#: The parts in which the second model differs.
_OF_LCM: Final = ("model_index.json", "scheduler", "unet")


def main(target: Path) -> None:
    """Write both models below ``target``."""
    for kind in ("sd", "lcm"):
        torch.manual_seed(_SEED)
        with tempfile.TemporaryDirectory() as place:
            source, result = Path(place, "source"), target / kind
            pipeline = _pipeline(kind, Path(place))
            pipeline.save_pretrained(source)
            main_export(
                str(source), output=result, task="text-to-image", ov_config=OVConfig(dtype="fp16")
            )
            tokenizer = CLIPTokenizerFast.from_pretrained(source / "tokenizer")
            ov.save_model(
                convert_tokenizer(tokenizer), result / "tokenizer" / "openvino_tokenizer.xml"
            )
    for part in (target / "lcm").iterdir():
        if part.name not in _OF_LCM:
            shutil.rmtree(part)
    for config in target.rglob("*.json"):
        # The place where this was made is of no use elsewhere.
        config.write_text(re.sub(r'\s*"_name_or_path": "[^"]*",?', "", config.read_text()))
    for graph in target.rglob("*.xml"):
        graph.write_text(re.sub(r">\s+<", "><", graph.read_text()))


def _pipeline(kind: str, place: Path) -> StableDiffusionPipeline | LatentConsistencyModelPipeline:
    tokenizer = _tokenizer(place)
    text_encoder = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(tokenizer),
            hidden_size=_HIDDEN,
            intermediate_size=_HIDDEN,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=77,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    is_lcm = kind == "lcm"
    unet = UNet2DConditionModel(
        sample_size=8,
        layers_per_block=1,
        block_out_channels=(_HIDDEN, _HIDDEN),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=_HIDDEN,
        attention_head_dim=8,
        **({"time_cond_proj_dim": 32} if is_lcm else {}),
    )
    coder = AutoencoderKL(
        latent_channels=4,
        block_out_channels=(8, 8, 8, 8),
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=1,
        sample_size=64,
    )
    parts = {
        "vae": coder,
        "text_encoder": text_encoder,
        "tokenizer": tokenizer,
        "unet": unet,
        "safety_checker": None,
        "feature_extractor": None,
        "requires_safety_checker": False,
    }
    if is_lcm:
        scheduler = LCMScheduler(**_NOISE, clip_sample=False, original_inference_steps=50)
        return LatentConsistencyModelPipeline(**parts, scheduler=scheduler)
    scheduler = DDIMScheduler(**_NOISE, clip_sample=False, set_alpha_to_one=False, steps_offset=1)
    return StableDiffusionPipeline(**parts, scheduler=scheduler)


def _tokenizer(place: Path) -> CLIPTokenizer:
    """Return a tokenizer of single bytes, as CLIP's, without merges."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printed]
    signs = [chr(byte) for byte in printed] + [chr(256 + number) for number in range(len(others))]
    # A list without any merge is taken for an empty file.
    words = [*signs, *(f"{sign}</w>" for sign in signs), "ab</w>", _START, _END]
    vocabulary, merges = place / "vocab.json", place / "merges.txt"
    merges.write_text("#version: 0.2\na b</w>\n")
    vocabulary.write_text(json.dumps({word: number for number, word in enumerate(words)}))
    return CLIPTokenizer(str(vocabulary), str(merges), model_max_length=77)


if __name__ == "__main__":
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    main(Path(sys.argv[1]))
