"""The model's own byte-level BPE tokenizer, with Qwen2-VL's tokens for images."""

from __future__ import annotations

import random
import re

from tokenizers import (  # type: ignore[import-untyped]
    AddedToken,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from ..training.conversation import END_OF_TEXT, TEMPLATE, TURN_END, TURN_START
from .conversations import conversation

VOCABULARY = 640
CONTEXT = 1024
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
VISION_PAD, IMAGE_PAD, VIDEO_PAD = "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"
VISION = (VISION_START, VISION_END, VISION_PAD, IMAGE_PAD, VIDEO_PAD)
SPECIAL = (END_OF_TEXT, TURN_START, TURN_END, *VISION)
#: Ordinary tokens, because a server has to see them in the text.
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


def train_tokenizer(seed: int, documents: int = 4000) -> PreTrainedTokenizerFast:
    rng = random.Random(f"tokenizer {seed}")
    texts = [re.sub(r"<[\w|/]+>", "\n", conversation(rng).text) for _ in range(documents)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKS),
        special_tokens=[AddedToken(text, special=True) for text in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKS])
    made = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=list(SPECIAL[1:]),
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    made.chat_template = TEMPLATE.read_text(encoding="utf-8")
    return made
