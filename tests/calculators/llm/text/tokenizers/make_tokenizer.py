"""Makes a tiny SentencePiece tokenizer; see README.md. Not needed to run the tests."""

# mypy: ignore-errors

from __future__ import annotations

import json
import sys

TEXTS = [
    "The quick brown fox jumps over the lazy dog, and then it sleeps in the sun.",
    "A graph is made of nodes and streams; packets go from node to node in order.",
    "She said that she would not come, but they were there when we came home.",
    "Numbers like 3, 14 and 2026 are read one digit at a time.",
    "Žluťoučký kůň úpěl ďábelské ódy. Grüße aus Köln.",
    "Hello world, hello there, yellow mellow fellow.",
]
SPECIAL = ["<unk>", "<s>", "</s>"]


def main(folder: str, *, cleans: bool) -> None:
    from tokenizers import Tokenizer, decoders, models, normalizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=SPECIAL + [f"<0x{byte:02X}>" for byte in range(256)]
    )
    made.train_from_iterator(TEXTS, trainer)
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    # The trainer makes all of them special, but bytes are ordinary tokens.
    data = json.loads(made.to_str())
    data["added_tokens"] = [each for each in data["added_tokens"] if each["content"] in SPECIAL]
    PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(data)),
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        clean_up_tokenization_spaces=cleans,
    ).save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1], cleans="--clean" in sys.argv)
