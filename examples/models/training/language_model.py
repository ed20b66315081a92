"""The model before training."""

import math
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from .tokenizer import CONTEXT, twins

HEAD = 32
ROPE_BASE = 1e6
WAVES = 3  # the fastest rotary frequencies: they tell neighbours apart
PULL = 3.0
QUICK = 5  # rotary frequencies that are too fast to compare tokens far apart
NOTE = 0.03
HAND = 0.3
SHARPER = 1.8


@dataclass(frozen=True)
class Shape:
    """Dimensions of a model."""

    layers: int
    hidden: int
    feed_forward: int
    heads: int
    key_heads: int


MODEL = Shape(layers=4, hidden=256, feed_forward=768, heads=8, key_heads=2)
#: For the draft model: with fewer than two layers it could not copy.
DRAFT = Shape(layers=2, hidden=128, feed_forward=192, heads=4, key_heads=1)


def new_model(tokenizer: PreTrainedTokenizerFast, shape: Shape = MODEL) -> Qwen3ForCausalLM:
    config = Qwen3Config(  # type: ignore[no-untyped-call]
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        intermediate_size=shape.feed_forward,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
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
        _begin_with_looking_back(model, shape)
    return model


def _begin_with_twins(model: Qwen3ForCausalLM, pairs: list[tuple[int, int]]) -> None:
    """Initialise the token " word" close to the token "word"."""
    rows = model.get_parameter("model.embed_tokens.weight")
    shift = torch.randn(rows.shape[1]) * rows.std()
    for plain, spaced in pairs:
        rows[spaced] = rows[plain] + 0.7 * shift + 0.3 * rows[spaced]


def _begin_with_looking_back(model: Qwen3ForCausalLM, shape: Shape) -> None:
    """Set up two layers to copy, as induction heads do; so few training tokens would not find it.

    The first layer's heads look at the token before (by the rotary angles) and write its identity
    into directions of their own. The second layer's heads look for positions whose note says "after
    the token that I am", and pass on the token there.
    """
    shared = shape.heads // shape.key_heads  # heads that share keys and values
    before, after = (layer.self_attn for layer in model.model.layers[:2])
    embeddings = model.get_parameter("model.embed_tokens.weight")
    random = torch.randn(shape.hidden, shape.hidden)
    directions = torch.linalg.qr(random).Q.split(HEAD)
    for group in range(shape.key_heads):
        read, note, hand = (part.clone() for part in directions[3 * group : 3 * group + 3])
        embeddings.sub_(embeddings @ note.T @ note)  # only notes are written there
        read[:QUICK], read[HEAD // 2 : HEAD // 2 + QUICK] = 0, 0  # these turn too fast to match
        keys = slice(group * HEAD, (group + 1) * HEAD)
        before.v_proj.weight[keys] = read
        before.k_proj.weight[keys] *= 0.3
        before.k_proj.bias[keys][:WAVES] = PULL
        after.k_proj.weight[keys] = 2 * note
        after.v_proj.weight[keys] = hand
        for head in range(group * shared, (group + 1) * shared):
            rows = slice(head * HEAD, (head + 1) * HEAD)
            before.q_proj.weight[rows] *= 0.3
            for wave in range(WAVES):
                angle = ROPE_BASE ** (-2 * wave / HEAD)
                before.q_proj.bias[rows][wave] = PULL * math.cos(angle)
                before.q_proj.bias[rows][wave + HEAD // 2] = -PULL * math.sin(angle)
            before.o_proj.weight[:, rows] *= 0.02
            before.o_proj.weight[:, rows] += NOTE * note.T
            after.q_proj.weight[rows] += 2 * read
            after.o_proj.weight[:, rows] *= 0.3
            after.o_proj.weight[:, rows] += HAND * hand.T
    for norm in (before.q_norm, before.k_norm, after.q_norm, after.k_norm):
        norm.weight *= SHARPER
