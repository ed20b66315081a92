"""The model before training."""

from __future__ import annotations

from transformers import (
    PreTrainedTokenizerFast,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
)

from ..training.tokenizer import token_id
from .patches import FRAMES, MERGE, PATCH
from .tokenizer import CONTEXT, IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_PAD, VISION_START

HIDDEN = 192
HEAD = 32


def new_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2VLForConditionalGeneration:
    vision = {
        "depth": 3,
        "embed_dim": 96,
        "hidden_size": HIDDEN,
        "mlp_ratio": 3,
        "num_heads": 4,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": FRAMES,
    }
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": HIDDEN,
        "num_hidden_layers": 3,
        "intermediate_size": 512,
        "num_attention_heads": HIDDEN // HEAD,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "rope_theta": 10000.0,
        # Numbers of pairs in a head for the position in the text, down and across.
        "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]},
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
        "tie_word_embeddings": True,
    }
    config = Qwen2VLConfig(  # type: ignore[no-untyped-call]
        text_config=text,
        vision_config=vision,
        image_token_id=token_id(tokenizer, IMAGE_PAD),
        video_token_id=token_id(tokenizer, VIDEO_PAD),
        vision_start_token_id=token_id(tokenizer, VISION_START),
        vision_end_token_id=token_id(tokenizer, VISION_END),
        vision_token_id=token_id(tokenizer, VISION_PAD),
        tie_word_embeddings=True,
    )
    return Qwen2VLForConditionalGeneration(config)  # type: ignore[no-untyped-call]
