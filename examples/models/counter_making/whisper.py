"""The checkpoint: a Whisper in transformers' form, its tokenizer and its settings."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizerFast,
)

#: The text, token by token.
NUMBERS = (" one", " two", " three", " four", " five", " six", " seven", " eight", " nine", " ten")
LANGUAGES = ("en", "de", "es", "fr", "ja")
SIZE = 32
END = "<|endoftext|>"
BEGIN = "<|startoftranscript|>"
_MARKS = (
    END,
    BEGIN,
    *(f"<|{code}|>" for code in LANGUAGES),
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
)
#: Whisper counts in steps of 0.02 s up to 30 s.
_TIMES = tuple(f"<|{step * 0.02:.2f}|>" for step in range(1501))
#: Positions of a decoder; each has a known next token.
_POSITIONS = 448
#: Positions whose next tokens are the language, the first time and the first number.
_LANGUAGE, _TIME, _FIRST = 0, 2, 3
#: The lengths of the directions of tokens and of positions, beside which the token before is weak.
#: Times have none, so that all of them together are less likely than the right word.
_WORD_LENGTH = 4.0
_POSITION_LENGTH = 20.0


def save_whisper(folder: Path) -> None:
    """Write model, tokenizer and settings as transformers' own ``save_pretrained`` does."""
    tokenizer = _tokenizer()
    ids = {token: _id(tokenizer, token) for token in (*NUMBERS, *_MARKS, _TIMES[0])}
    model = _model(ids, tokenizer.get_vocab_size())
    model.generation_config = _settings(ids)
    model.save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=80).save_pretrained(folder)
    fast = WhisperTokenizerFast(
        tokenizer_object=tokenizer, unk_token=END, bos_token=END, eos_token=END, pad_token=END
    )
    fast.save_pretrained(folder)


def _tokenizer() -> Tokenizer:
    """Bytes, the numbers as whole tokens, Whisper's marks and times."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["".join(NUMBERS)] * 3, trainer)
    tokenizer.add_special_tokens(list(_MARKS))
    tokenizer.add_tokens(list(_TIMES))
    return tokenizer


def _id(tokenizer: Tokenizer, token: str) -> int:
    """Return the id of a token; byte-level vocabularies write a blank as "Ġ"."""
    found = tokenizer.token_to_id(token.replace(" ", "Ġ"))
    assert found is not None, f"{token!r} is not a token of its own"
    return found


def _model(ids: dict[str, int], tokens: int) -> WhisperForConditionalGeneration:
    """A model whose layers add nothing, so that a position's direction decides the next token."""
    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=tokens,
        d_model=SIZE,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=SIZE,
        decoder_ffn_dim=SIZE,
        num_mel_bins=80,
        max_source_positions=1500,
        max_target_positions=_POSITIONS,
        pad_token_id=ids[END],
        bos_token_id=ids[END],
        eos_token_id=ids[END],
        decoder_start_token_id=ids[BEGIN],
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for layer in model.model.decoder.layers:
            for last in (layer.self_attn.out_proj, layer.encoder_attn.out_proj, layer.fc2):
                last.weight.zero_()
                last.bias.zero_()
        directions = torch.randn(tokens, SIZE)
        directions -= directions.mean(dim=1, keepdim=True)
        directions /= directions.norm(dim=1, keepdim=True)
        words = _WORD_LENGTH * directions
        words[ids[_TIMES[0]] :] = 0.0
        model.model.decoder.embed_tokens.weight.copy_(words)
        positions = model.model.decoder.embed_positions.weight
        for place in range(_POSITIONS):
            positions[place] = _POSITION_LENGTH * directions[ids[_next_token(place)]]
    model.tie_weights()
    return model


def _next_token(place: int) -> str:
    """The token after the one at a position."""
    if place == _LANGUAGE:
        return f"<|{LANGUAGES[0]}|>"
    if place == _TIME:
        return _TIMES[0]
    if _FIRST <= place < _FIRST + len(NUMBERS):
        return NUMBERS[place - _FIRST]
    return END


def _settings(ids: dict[str, int]) -> GenerationConfig:
    return GenerationConfig(
        decoder_start_token_id=ids[BEGIN],
        bos_token_id=ids[END],
        eos_token_id=ids[END],
        pad_token_id=ids[END],
        max_length=_POSITIONS,
        max_initial_timestamp_index=50,
        return_timestamps=False,
        no_timestamps_token_id=ids["<|notimestamps|>"],
        prev_sot_token_id=ids["<|startofprev|>"],
        alignment_heads=[[0, 0], [0, 1]],
        is_multilingual=True,
        task_to_id={name: ids[f"<|{name}|>"] for name in ("transcribe", "translate")},
        lang_to_id={f"<|{code}|>": ids[f"<|{code}|>"] for code in LANGUAGES},
        task="transcribe",
    )
