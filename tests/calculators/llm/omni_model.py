"""Maker of a tiny model in the form of Qwen3-Omni, which hears, sees and speaks.

It reads and sees as the example model of pictures does, whose networks it has. What it hears are
vectors that depend on how loud a sound is. Its speech is a tone of a fixed pitch for every token of
the answer.

The networks around are as openvino-genai 2026.4 loads them (``qwen3_omni``): the names of their
inputs and outputs are the library's.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
from openvino import opset13 as op

from bench.gguf_file import write_gguf
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.tokenizer_graph import write_tokenizer
from calculators.kit.checkpoints.vocabulary import read_vocabulary
from tests.calculators.llm.demo_model import DEMO

SEEING: Final = DEMO.parent / "shapes_vlm"
#: The size of the vectors of the model that writes, and of the one that speaks.
HIDDEN: Final = 192
SPEAKING: Final = 16
#: The samples of a frame of speech, at 24 kHz.
FRAME: Final = 1920
VOICES: Final = ("anna", "bert")
_MELS: Final = 128
#: Tokens of the example model's vocabulary with another meaning here.
_RENAMED: Final = {
    "<|vision_pad|>": "<|audio_pad|>",
    "<tool_response>": "<|audio_start|>",
    "</tool_response>": "<|audio_end|>",
}
#: Rows of the table of vectors after the vocabulary: begin, end, and fill of speech.
_TTS_BEGIN, _TTS_END, _TTS_FILL = 640, 641, 642
#: The library never chooses the last 1024 codes, but the end.
_CODES: Final = 64
_CODE_ROWS: Final = _CODES + 1024
_CODE_END: Final = _CODE_ROWS - 1
_SPECIAL_CODES: Final = {
    "codec_bos_id": 100,
    "codec_eos_token_id": _CODE_END,
    "codec_pad_id": 101,
    "codec_nothink_id": 102,
    "codec_think_bos_id": 103,
    "codec_think_eos_id": 104,
}


def make_omni_model(directory: Path) -> Path:
    """Write the model's folder and return it."""
    directory.mkdir(parents=True, exist_ok=True)
    ids = _write_tokenizer(directory)
    template = (SEEING / "chat_template.jinja").read_text(encoding="utf-8")
    (directory / "chat_template.jinja").write_text(template, encoding="utf-8")
    for name in ("preprocessor_config.json", "generation_config.json"):
        shutil.copyfile(SEEING / name, directory / name)
    shutil.copyfile(
        SEEING / "preprocessor_config.json", directory / "video_preprocessor_config.json"
    )
    (directory / "config.json").write_text(json.dumps(_config(ids), indent=2), encoding="utf-8")
    random = np.random.default_rng(7)
    networks = {
        "language": _language(),
        "text_embeddings": _text_vectors(),
        "vision_embeddings": _vision(),
        "vision_embeddings_pos": _places(),
        "audio_encoder": _hearing(),
        "talker": _talker(random),
        "talker_text_embeddings": _talker_vectors(random),
        "talker_projections": _projections(random),
        "code_predictor": _code_predictor(random),
        "code2wav": _waves(),
    }
    for name, network in networks.items():
        ov.save_model(network, directory / f"openvino_{name}_model.xml", compress_to_fp16=False)
    return directory


def _config(ids: Mapping[str, int]) -> dict[str, Any]:
    seeing = json.loads((SEEING / "config.json").read_text(encoding="utf-8"))
    return {
        "model_type": "qwen3_omni_moe",
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "enable_audio_output": True,
        "tts_bos_token_id": _TTS_BEGIN,
        "tts_eos_token_id": _TTS_END,
        "tts_pad_token_id": _TTS_FILL,
        "im_start_token_id": ids["<|im_start|>"],
        "system_token_id": ids["system"],
        "user_token_id": ids["user"],
        "assistant_token_id": ids["assistant"],
        "thinker_config": {
            "audio_token_id": ids["<|audio_pad|>"],
            "image_token_id": ids["<|image_pad|>"],
            "video_token_id": ids["<|video_pad|>"],
            "text_config": {
                "hidden_size": HIDDEN,
                "max_position_embeddings": seeing["text_config"]["max_position_embeddings"],
                "vocab_size": seeing["text_config"]["vocab_size"],
            },
            "vision_config": {"num_position_embeddings": 4, "deepstack_visual_indexes": [0]},
            "audio_config": {"num_mel_bins": _MELS, "n_window": 50, "n_window_infer": 800},
        },
        "talker_config": {
            "num_code_groups": 2,
            "speaker_id": {name: 105 + number for number, name in enumerate(VOICES)},
            **_SPECIAL_CODES,
        },
    }


def _write_tokenizer(directory: Path) -> dict[str, int]:
    """Write the tokenizer, and return the ids of its tokens."""
    made = json.loads((SEEING / "tokenizer.json").read_text(encoding="utf-8"))
    known = {
        **made["model"]["vocab"],
        **{each["content"]: each["id"] for each in made["added_tokens"]},
    }
    ids = {_RENAMED.get(text, text): number for text, number in known.items()}
    special = {_RENAMED.get(each["content"], each["content"]) for each in made["added_tokens"]}
    tokens = sorted(ids, key=lambda text: ids[text])
    values = {
        "general.architecture": "qwen3",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if text in special else 1 for text in tokens],
        "tokenizer.ggml.merges": [
            pair if isinstance(pair, str) else " ".join(pair) for pair in made["model"]["merges"]
        ],
        "tokenizer.ggml.eos_token_id": ids["<|im_end|>"],
        "tokenizer.ggml.padding_token_id": ids["<|endoftext|>"],
    }
    file = directory / "vocabulary.gguf"
    write_gguf(file, values, {"none": np.zeros(1, np.float32)})
    write_tokenizer(read_vocabulary(GgufFile(file).metadata, file.name), directory, file.name)
    file.unlink()
    return ids


def _read(name: str) -> ov.Model:
    return ov.Core().read_model(SEEING / f"openvino_{name}_model.xml")


def _input(name: str, shape: Sequence[int], kind: Any) -> Any:
    made = op.parameter(list(shape), kind)
    # Paged attention is found by the one name, tensors are set by the other.
    made.set_friendly_name(name)
    made.output(0).set_names({name})
    return made


def _model(inputs: Sequence[Any], outputs: Mapping[str, Any]) -> ov.Model:
    results = []
    for name, value in outputs.items():
        result = op.result(value)
        result.output(0).set_names({name})
        results.append(result)
    return ov.Model(results, list(inputs), "omni")


def _none_of(value: Any) -> Any:
    """Return a zero that depends on a value."""
    numbers = op.convert(value, "f32")
    rank = value.get_output_partial_shape(0).rank.get_length()
    total = op.reduce_sum(numbers, _whole(list(range(rank)))) if rank else numbers
    return op.multiply(op.clamp(total, 0.0, 1e-30), op.constant(np.float32(1e-10)))


def _whole(value: Any) -> Any:
    return op.constant(np.array(value, np.int64))


def _language() -> ov.Model:
    """The example's network, with places of four dimensions and what the speaking one needs."""
    model = _read("language")
    given = {port.get_any_name(): port.get_node() for port in model.inputs}
    places = _input("position_ids", (4, -1, -1), np.int64)
    three = op.slice(places, _whole([0]), _whole([3]), _whole([1]), _whole([0]))
    for target in given["position_ids"].output(0).get_target_inputs():
        target.replace_source_output(three.output(0))
    masks = _input("visual_pos_masks", (-1, -1), np.bool_)
    deep = _input("deepstack_visual_embeds", (1, -1, HIDDEN), np.float32)
    vectors = given["inputs_embeds"].output(0)
    users = list(vectors.get_target_inputs())
    nothing = op.add(_none_of(masks), _none_of(deep))
    with_all = op.add(given["inputs_embeds"], nothing)
    for target in users:
        target.replace_source_output(with_all.output(0))
    last = model.output("logits").get_node().input_value(0).get_node().input_value(0)
    added = []
    # With equal values one would lose its name.
    for name, factor in (("hidden_states", 1.5), ("intermediate_hidden_states", 0.5)):
        scaled = op.multiply(last.get_node(), op.constant(np.float32(factor)))
        scaled.output(0).set_names({name})
        added.append(op.result(scaled))
    model.add_parameters([places, masks, deep])
    model.add_results(added)
    model.remove_parameter(given["position_ids"])
    model.validate_nodes_and_infer_types()
    return model


def _table() -> Any:
    """Return the table of the vectors of tokens, with rows for speech that stand out."""
    compiled = ov.Core().compile_model(_read("text_embeddings"), "CPU")
    rows = compiled(np.arange(640, dtype=np.int64)[np.newaxis])[0][0]
    speech = np.zeros((3, HIDDEN), np.float32)
    speech[np.arange(3), np.arange(3)] = 100
    return np.concatenate([rows, speech])


def _text_vectors() -> ov.Model:
    ids = _input("input", (-1, -1), np.int64)
    return _model([ids], {"inputs_embeds": op.gather(op.constant(_table()), ids, _whole(0))})


def _vision() -> ov.Model:
    """The two networks of pictures as one."""
    first, second = _read("vision_embeddings"), _read("vision_embeddings_merger")
    patches = first.input(0).get_node()
    places = _input("pos_embeds", (-1, 96), np.float32)
    seen = first.output(0).get_node().input_value(0)
    joined = op.add(seen.get_node(), _none_of(places))
    given = {port.get_any_name(): port.get_node() for port in second.inputs}
    for target in given["hidden_states"].output(0).get_target_inputs():
        target.replace_source_output(joined.output(0))
    result = second.output(0).get_node().input_value(0).get_node()
    others = [given["attention_mask"], given["rotary_pos_emb"]]
    deep = op.unsqueeze(result, _whole([0]))
    outputs = {"last_hidden_state": result, "deepstack_feature_lists": deep}
    return _model([patches, places, *others], outputs)


def _places() -> ov.Model:
    places = _input("input", (4, -1), np.int64)
    table = op.constant(np.zeros((4, 96), np.float32))
    return _model([places], {"last_hidden_state": op.gather(table, places, _whole(0))})


def _hearing() -> ov.Model:
    """A vector for every eight frames of a sound: the louder, the further along one direction."""
    feature = _input("padded_feature", (-1, _MELS, -1), np.float32)
    mask = _input("padded_mask_after_cnn", (-1, -1), np.bool_)
    lengths = _input("aftercnn_lens", (-1,), np.int64)
    ends = _input("cu_seqlens", (-1,), np.int32)
    loudness = op.reduce_mean(feature, _whole([1, 2]), keep_dims=True)
    direction = op.constant(_table()[np.newaxis, 8:9])
    heard = op.multiply(loudness, direction)
    flat = op.unsqueeze(op.convert(mask, "f32"), _whole([2]))
    ones = op.add(op.multiply(flat, op.constant(np.float32(0))), op.constant(np.float32(1)))
    nothing = op.add(_none_of(lengths), _none_of(ends))
    features = op.add(op.multiply(heard, ones), nothing)
    return _model([feature, mask, lengths, ends], {"audio_features": features})


def _talker_vectors(random: np.random.Generator) -> ov.Model:
    ids = _input("input", (-1, -1), np.int64)
    table = op.constant(_codes_table(random))
    return _model([ids], {"inputs_embeds": op.gather(table, ids, _whole(0))})


def _codes_table(random: np.random.Generator) -> Any:
    rows = random.normal(0, 1, (_CODE_ROWS, SPEAKING)).astype(np.float32)
    rows[:, 0] = 0  # the place of the end
    return rows


def _projections(random: np.random.Generator) -> ov.Model:
    """What was written, in the other's vectors: the first number is 1 at the end of the text."""
    hidden = _input("hidden_state", (-1, -1, HIDDEN), np.float32)
    weights = random.normal(0, 0.1, (HIDDEN, SPEAKING)).astype(np.float32)
    weights[:, 0] = 0
    # The rows of speech are long.
    short = op.clamp(hidden, -3.0, 3.0)
    projected = op.matmul(short, op.constant(weights), False, False)
    at_end = op.gather(hidden, _whole([_TTS_END - 640]), _whole(2))
    flag = op.clamp(op.subtract(at_end, op.constant(np.float32(50))), 0.0, 1.0)
    first = np.zeros((1, 1, SPEAKING), np.float32)
    first[..., 0] = 1
    said = op.add(projected, op.multiply(flag, op.constant(first)))
    return _model([hidden], {"text_projection": said, "hidden_projection": projected})


def _talker(random: np.random.Generator) -> ov.Model:
    vectors = _input("inputs_embeds", (-1, -1, SPEAKING), np.float32)
    mask = _input("attention_mask", (-1, -1), np.int64)
    places = _input("position_ids", (-1, -1), np.int64)
    beams = _input("beam_idx", (-1,), np.int32)
    weights = random.normal(0, 1, (SPEAKING, _CODE_ROWS)).astype(np.float32)
    weights[:, _CODE_END] = 0
    weights[0] = 0
    weights[0, _CODE_END] = 20_000
    bias = np.zeros((1, 1, _CODE_ROWS), np.float32)
    bias[..., _CODE_END] = -10_000
    logits = op.add(op.matmul(vectors, op.constant(weights), False, False), op.constant(bias))
    nothing = op.add(op.add(_none_of(mask), _none_of(places)), _none_of(beams))
    outputs = {"logits": op.add(logits, nothing), "hidden_states": op.add(vectors, nothing)}
    return _model([vectors, mask, places, beams], outputs)


def _code_predictor(random: np.random.Generator) -> ov.Model:
    vectors = _input("inputs_embeds", (-1, -1, SPEAKING), np.float32)
    mask = _input("attention_mask", (-1, -1), np.int64)
    places = _input("position_ids", (-1, -1), np.int64)
    beams = _input("beam_idx", (-1,), np.int32)
    step = _input("step", (), np.int64)
    seed = _input("seed", (), np.int64)
    temperature = _input("temperature", (), np.float32)
    top_k = _input("top_k", (), np.int64)
    code = op.reshape(op.mod(seed, _whole(_CODES)), _whole([1]), special_zero=False)
    nothing = _none_of(vectors)
    for each in (mask, places, beams, step, temperature, top_k):
        nothing = op.add(nothing, _none_of(each))
    rows = op.gather(op.constant(_codes_table(random)), code, _whole(0))
    vector = op.add(op.unsqueeze(rows, _whole([0])), nothing)
    inputs = [vectors, mask, places, beams, step, seed, temperature, top_k]
    return _model(inputs, {"code": code, "token_embed": vector})


def _waves() -> ov.Model:
    """A tone of a pitch by the first code, for each frame."""
    codes = _input("codes", (-1, -1, -1), np.int64)
    time = np.arange(FRAME) / 24_000
    pitches = 200 + 50 * np.arange(_CODES)[:, np.newaxis]
    tones = (0.3 * np.sin(2 * np.pi * np.round(pitches / 12.5) * 12.5 * time)).astype(np.float32)
    first = op.gather(codes, _whole(0), _whole(1))
    shown = op.mod(first, _whole(_CODES))
    frames = op.gather(op.constant(tones), shown, _whole(0))
    return _model([codes], {"waveform": op.reshape(frames, _whole([1, 1, -1]), special_zero=False)})
