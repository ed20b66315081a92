"""Options of draft models and of prompt look-up: their values, and the errors of invalid ones."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from bench.random_model import TINY, make_model
from tests.calculators.llm.demo_model import DEMO, copy_of_demo, rewrite
from tests.calculators.llm.test_node_options import read, refusal

DRAFT = "../demo_draft"
LOOKUP = """plugin_config: '{"prompt_lookup": true}'"""


def with_draft(more: str = "", path: str = DRAFT) -> str:
    return f'models_path: "./" draft_models_path: "{path}" {more}'


def test_a_draft_model_inherits_the_models_options() -> None:
    engine = read(with_draft("cache_size: 3 max_num_seqs: 9")).engine
    assert engine.draft is not None
    assert Path(engine.draft.path).resolve() == DEMO.parent / "demo_draft"
    assert (engine.draft.cache_size, engine.draft.max_num_seqs) == (3, 9)
    assert (engine.draft.device, engine.draft.is_eagle3) == ("", False)
    assert engine.decoding_mode == "speculative"


def test_a_draft_models_own_options_win() -> None:
    options = 'draft_device: "CPU" draft_cache_size: 1 draft_max_num_seqs: 4 cache_size: 3'
    draft = read(with_draft(options)).engine.draft
    assert draft is not None
    assert (draft.device, draft.cache_size, draft.max_num_seqs) == ("CPU", 1, 4)


def test_prompts_are_not_split_and_all_candidates_fit() -> None:
    engine = read(with_draft("max_num_seqs: 10")).engine
    assert not engine.dynamic_split_fuse
    assert engine.max_num_batched_tokens == 2048  # the model's length
    assert read(with_draft("max_num_seqs: 100")).engine.max_num_batched_tokens == 3300
    assert read(with_draft("max_num_batched_tokens: 9000")).engine.max_num_batched_tokens == 9000


@pytest.mark.parametrize(
    "option",
    [
        "draft_max_num_batched_tokens: 64",
        "draft_dynamic_split_fuse: false",
        "draft_block_size: 16",
        "dynamic_split_fuse: true",
    ],
)
def test_options_without_effect_give_a_warning(option: str) -> None:
    (warning,) = read(with_draft(option)).warnings
    assert warning.startswith(option.partition(":")[0] + ": no effect")


def test_prompt_lookup_is_a_property_of_the_plugin() -> None:
    engine = read(LOOKUP).engine
    assert engine.decoding_mode == "prompt_lookup"
    assert engine.plugin_config == {"prompt_lookup": True}
    off = read("""plugin_config: '{"prompt_lookup": false}'""").engine
    assert off.decoding_mode == "standard"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (with_draft(LOOKUP), ["draft_models_path: ", "prompt_lookup"]),
        (
            """plugin_config: '{"prompt_lookup": "yes"}'""",
            ["plugin_config: prompt_lookup: ", "true"],
        ),
        ("""plugin_config: '{"prompt_lookup": 1}'""", ["plugin_config: prompt_lookup: ", "true"]),
        (with_draft(path="../nowhere"), ['draft_models_path: "../nowhere" does not exist']),
        (with_draft(path="../demo/README.md"), ['draft_models_path: "../demo/README.md"', ".gguf"]),
        (
            with_draft(path="../training"),
            ['draft_models_path: "../training" has no openvino_model'],
        ),
        (with_draft("draft_max_num_seqs: 0"), ["draft_max_num_seqs: 0"]),
        (
            with_draft("draft_eagle3_mode: true"),
            ['"../demo_draft" is not an EAGLE-3 model', "eagle3_mode"],
        ),
        ("draft_eagle3_mode: true", ["draft_eagle3_mode: ", "draft_models_path"]),
        ("draft_max_num_seqs: 2", ["draft_max_num_seqs: ", "draft_models_path"]),
        (
            f"{LOOKUP} cache_eviction_config "
            "{ start_size: 32 recent_size: 64 max_cache_size: 128 }",
            ["prompt_lookup", "cache_eviction_config"],
        ),
        (
            with_draft(
                "cache_eviction_config { start_size: 32 recent_size: 64 max_cache_size: 128 }"
            ),
            ["draft_models_path: ", "cache_eviction_config"],
        ),
        (
            with_draft("sparse_attention_config {}"),
            ["draft_models_path: ", "sparse_attention_config"],
        ),
        (with_draft('adapters { name: "a" path: "a" }'), ["draft_models_path: ", "adapters"]),
        (f'{LOOKUP} adapters {{ name: "a" path: "a" }}', ["prompt_lookup", "adapters"]),
    ],
)
def test_invalid_options_are_refused(options: str, words: list[str]) -> None:
    text = refusal(options if "models_path" in options else f'models_path: "./" {options}')
    for word in words:
        assert word in text, text


def test_a_draft_model_that_sees_images_is_refused() -> None:
    assert "sees images" in refusal(with_draft(path="../shapes_vlm"))


def test_a_model_that_sees_images_has_no_draft_model() -> None:
    options = 'models_path: "../shapes_vlm" draft_models_path: "../demo_draft"'
    assert "the model in models_path sees images" in refusal(options)


def test_a_draft_model_of_gguf_with_other_tokens_is_refused(tmp_path: Path) -> None:
    file = make_model(tmp_path, TINY)

    said = refusal(with_draft(path=str(file)))

    assert "has another vocabulary: 1024 tokens, and the model in models_path" in said


def of_other_tokens(folder: Path) -> Path:
    """Copy the draft model with another tokenizer, one token of which has another name."""
    copy = copy_of_demo(folder)
    rewrite(copy / "openvino_tokenizer.bin", lambda content: content + b"\0")

    def rename(content: bytes) -> bytes:
        read = json.loads(content)
        vocabulary = read["model"]["vocab"]
        vocabulary["something else"] = vocabulary.pop(list(vocabulary)[-1])
        return json.dumps(read).encode()

    rewrite(copy / "tokenizer.json", rename)
    return copy


def test_a_draft_model_with_other_tokens_is_refused(tmp_path: Path) -> None:
    path = of_other_tokens(tmp_path / "draft")
    text = refusal(with_draft(path=str(path)))
    assert "has another vocabulary: 2459 tokens, and the model in models_path 2459" in text
    assert "they differ first in token " in text


def test_a_draft_model_of_another_size_is_refused_with_both_numbers(tmp_path: Path) -> None:
    path = of_other_tokens(tmp_path / "draft")
    os.unlink(path / "tokenizer.json")
    rewrite(path / "config.json", lambda content: content.replace(b"2459", b"3000"))
    text = refusal(with_draft(path=str(path)))
    assert "another vocabulary: 3000 tokens, and the model in models_path 2459" in text


def test_the_same_tokens_in_other_files_are_accepted(tmp_path: Path) -> None:
    path = copy_of_demo(tmp_path / "draft")
    rewrite(path / "openvino_tokenizer.bin", lambda content: content + b"\0")
    assert read(with_draft(path=str(path))).engine.draft is not None


def eagle3(folder: Path, information: str, names: bytes = b"hidden_states") -> Path:
    """Copy the draft model with the description of an EAGLE-3 model."""
    shutil.copytree(DEMO.parent / "demo_draft", folder)
    rewrite(
        folder / "openvino_model.xml",
        lambda content: content.replace(
            b"</net>",
            b'<rt_info><eagle3_mode value="true" />%s</rt_info></net>' % information.encode(),
        ).replace(b"beam_idx", names),
    )
    return folder


LAYERS = '<hidden_layers_list value="0,1,2" />'


@pytest.mark.parametrize("option", ["", "draft_eagle3_mode: true"])
def test_an_eagle3_model_is_recognised_with_and_without_the_option(
    option: str, tmp_path: Path
) -> None:
    path = eagle3(tmp_path / "draft", LAYERS)
    engine = read(with_draft(option, path=str(path))).engine
    assert engine.decoding_mode == "eagle3"


@pytest.mark.parametrize(
    ("information", "names", "words"),
    [
        (LAYERS, b"beam_idx", "no input hidden_states"),
        ("", b"hidden_states", "hidden_layers_list"),
    ],
)
def test_missing_parts_of_an_eagle3_model_are_named(
    information: str, names: bytes, words: str, tmp_path: Path
) -> None:
    path = eagle3(tmp_path / "draft", information, names)
    assert words in refusal(with_draft("draft_eagle3_mode: true", path=str(path)))


def test_a_draft_of_a_kind_that_is_not_served_is_named(tmp_path: Path) -> None:
    path = eagle3(tmp_path / "draft", LAYERS)
    rewrite(path / "openvino_model.xml", lambda content: content.replace(b"eagle3_", b"dflash_"))
    assert "drafts of MTP and DFlash are not served" in refusal(with_draft(path=str(path)))
