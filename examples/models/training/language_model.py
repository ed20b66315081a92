"""The model before training."""

import math

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from .tokenizer import CONTEXT, twins

HEADS = 8
KEY_HEADS = 2
HEAD = 32
ROPE_BASE = 10000.0
WAVES = 3  # the quickest rotary frequencies: they tell neighbours apart
PULL = 3.0


def new_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    config = Qwen3Config(  # type: ignore[no-untyped-call]
        vocab_size=len(tokenizer),
        hidden_size=256,
        num_hidden_layers=4,
        intermediate_size=768,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        head_dim=HEAD,
        tie_word_embeddings=True,
        attention_bias=True,
        max_position_embeddings=CONTEXT,
        rope_theta=ROPE_BASE,
        initializer_range=0.02,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        _begin_with_twins(model, twins(tokenizer))
        _begin_with_looking_back(model)
    return model


def _begin_with_twins(model: Qwen3ForCausalLM, pairs: list[tuple[int, int]]) -> None:
    """The token " word" begins close to the token "word"."""
    rows = model.get_parameter("model.embed_tokens.weight")
    shift = torch.randn(rows.shape[1]) * rows.std()
    for plain, spaced in pairs:
        rows[spaced] = rows[plain] + 0.7 * shift + 0.3 * rows[spaced]


def _begin_with_looking_back(model: Qwen3ForCausalLM) -> None:
    """Attention begins near what copying needs, which few tokens of training would not find.

    Half of the first layer's heads look at the token before. All other heads look at what is
    like themselves. All heads hand on what they see ("mimetic initialisation").
    """
    for number, layer in enumerate(model.model.layers):
        attention = layer.self_attn
        keys, values = attention.k_proj.weight, attention.v_proj.weight
        queries, output = attention.q_proj.weight, attention.o_proj.weight
        for head in range(HEADS):
            rows = slice(head * HEAD, (head + 1) * HEAD)
            group = head * KEY_HEADS // HEADS
            shared = slice(group * HEAD, (group + 1) * HEAD)
            output[:, rows] = 0.5 * values[shared].T + 0.5 * output[:, rows]
            if number > 0 or group > 0:
                queries[rows] = keys[shared] + 0.5 * queries[rows]
                continue
            for wave in range(WAVES):
                angle = (2 if head == 0 else 1) * ROPE_BASE ** (-2 * wave / HEAD)
                sine = wave + HEAD // 2
                attention.k_proj.bias[shared][wave] = PULL
                attention.q_proj.bias[rows][wave] = PULL * math.cos(angle)
                attention.q_proj.bias[rows][sine] = -PULL * math.sin(angle)
                for norm in (attention.q_norm, attention.k_norm):
                    norm.weight[wave] = norm.weight[sine] = 1.4
