"""Whisper in CTranslate2's form as OpenVINO's models, compared with NumPy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import openvino as ov
import openvino_genai as genai
import pytest

from calculators.speech.speech_to_text.whisper_conversion import convert, generation_config
from tests.calculators.speech.speech_to_text.ctranslate2 import (
    FRAMES,
    MELS,
    TIMES,
    TOKENS,
    Whisper,
    make_whisper,
)

#: Without these the CPU keeps keys and values in 8 bits.
EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Whisper]:
    folder = tmp_path_factory.mktemp("whisper")
    variables = make_whisper(folder / "source")
    (folder / "made").mkdir()
    convert(folder / "source", folder / "made")
    return folder / "made", Whisper(variables)


def test_both_halves_compute_what_the_model_is(models: tuple[Path, Whisper]) -> None:
    directory, whisper = models
    core = ov.Core()
    encoder = core.compile_model(directory / "openvino_encoder_model.xml", "CPU", EXACT)
    decoder = core.compile_model(directory / "openvino_decoder_model.xml", "CPU", EXACT)
    features = np.random.default_rng(1).normal(size=(MELS, 2 * FRAMES)).astype(np.float32)
    sound = encoder(features[None])[0]
    np.testing.assert_allclose(sound[0], whisper.encoded(features), atol=1e-4)
    request = decoder.create_infer_request()
    ids = [3, 14, 15, 9, 2, 6, 5]
    made = []
    # The first call takes several tokens, later ones one each, with what the states hold.
    for part in (ids[:4], ids[4:5], ids[5:6], ids[6:]):
        inputs = {
            "input_ids": np.array([part], np.int64),
            "encoder_hidden_states": sound,
            "beam_idx": np.zeros(1, np.int32),
        }
        made.append(np.array(request.infer(inputs)["logits"])[0])
    wanted = whisper.logits(ids, whisper.encoded(features))
    np.testing.assert_allclose(np.concatenate(made), wanted, atol=1e-4)
    assert (np.concatenate(made).argmax(1) == wanted.argmax(1)).all()


def test_texts_become_tokens_and_times_are_not_text(models: tuple[Path, Whisper]) -> None:
    directory, _ = models
    tokenizer = genai.Tokenizer(str(directory))
    ids = tokenizer.encode("hello", add_special_tokens=True).input_ids.data.tolist()[0]
    words = ["he", "l", "lo"]
    assert [tokenizer.decode([each]) for each in ids] == words
    assert tokenizer.decode([*ids, TOKENS - TIMES, TOKENS - 1]) == "hello"


def test_settings_are_those_of_the_model(models: tuple[Path, Whisper]) -> None:
    directory, _ = models
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    assert (config["vocab_size"], config["encoder_layers"]) == (TOKENS, 2)
    generation = json.loads((directory / "generation_config.json").read_text(encoding="utf-8"))
    assert generation["is_multilingual"] is False
    assert "lang_to_id" not in generation


def test_a_model_of_many_languages_names_them() -> None:
    marks = ("<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>", "<|startofprev|>")
    ids = {text: place for place, text in enumerate((*marks, "<|transcribe|>", "<|translate|>"))}
    ids |= {"<|en|>": 10, "<|de|>": 11}
    settings = {
        "suppress_ids": [], "suppress_ids_begin": [], "alignment_heads": [], "lang_ids": [10, 11]
    }  # fmt: skip
    made = generation_config(settings, ids, 51865)
    assert made["lang_to_id"] == {"<|en|>": 10, "<|de|>": 11}
    assert made["task_to_id"] == {"transcribe": 4, "translate": 5}
