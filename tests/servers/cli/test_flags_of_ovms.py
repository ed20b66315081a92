"""Every flag of OpenVINO Model Server is accepted, or refused with a reason and a remedy.

From ``cli_parser.cpp`` and ``graph_export/*_cli_parser.cpp`` of its releases 2025.0 to 2026.2,
and what its release notes of 2026.4 add.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from servers.cli import add_to_config
from servers.cli.arguments import make_parser
from servers.cli.command_line import spread
from servers.cli.messages import CommandFailed
from servers.options.server_options import REFUSED, WITHOUT_EFFECT

#: Flags that serve takes, each with a value.
SERVED = """
--port 9000                          --grpc_bind_address 0.0.0.0       --rest_port 8000
--rest_bind_address 0.0.0.0          --grpc_channel_arguments grpc.x=1 --log_level INFO
--log_path log                       --verbose_response true           --cache_dir cache
--file_system_poll_wait_seconds 1    --metrics_enable true             --metrics_list ovms_streams
--allowed_media_domains all          --allowed_local_media_path media  --allowed_origins *
--allowed_methods *                  --allowed_headers *               --allow_credentials true
--api_key_file key                   --config_path config.json         --model_name m
--model_path DIR                     --batch_size 1                    --shape auto
--layout NHWC:NCHW                   --mean 1                          --scale 2
--color_format RGB:BGR               --precision uint8:fp32            --nireq 4
--model_version_policy {"all":{}}    --target_device CPU               --plugin_config {"A":1}
--task text_generation               --source_model org/name           --gguf_filename a.gguf
--model_repository_path DIR          --overwrite_models true           --weight-format int8
--extra_quantization_params --sym    --max_num_seqs 8                  --pipeline_type LM_CB
--enable_prefix_caching true         --max_num_batched_tokens 256      --cache_size 4
--draft_source_model org/draft       --dynamic_split_fuse true         --reasoning_parser qwen3
--tool_parser hermes3                --enable_tool_guided_generation true
--cache_interval_multiplier 2        --max_prompt_len 1024             --kv_cache_precision u8
--model_distribution_policy TENSOR_PARALLEL                            --normalize true
--truncate false                     --pooling CLS                     --resolution 512x512
--model_type kokoro                  --vocoder org/name                --max_allowed_chunks 5
--max_resolution 512x512             --default_resolution 512x512      --num_images_per_prompt 2
--max_num_images_per_prompt 2        --guidance_scale 7.5              --max_num_inference_steps 5
--default_num_inference_steps 5      --source_loras a=a.safetensors
--disable_input_count_validation true  --cpu_extension openvino_tokenizers
"""
#: Flags of 2026.4 that are further spellings here.
SPELLINGS = {
    "--idle_unload_timeout_seconds": "idle_unload_seconds",
    "--draft_model_path": "draft_source_model",
}
#: Flags that are accepted, and of which a line says that they have no effect.
NO_EFFECT = """
--grpc_workers 4                     --grpc_max_threads 8              --grpc_memory_quota 1000
--rest_workers 4                     --trace_path trace
--custom_node_resources_cleaner_interval_seconds 1                     --num_streams 2
--sequence_cleaner_poll_wait_minutes 5                                 --max_sequence_number 9
--idle_sequence_cleanup true         --max_length 512
"""
#: Flags that are refused, and a word of the reason.
NOT_SERVED = {
    "--stateful true": "keep no state",
    "--low_latency_transformation true": "keep no state",
}
#: Flags that choose what the program does, and the words of graphrt that do it.
MODES = {
    "--pull --source_model org/name --task text_generation": (
        "pull --source_model org/name --task text_generation"
    ),
    "--source_model org/name --pull --task embeddings": (
        "pull --source_model org/name --task embeddings"
    ),
    "--list_models --model_repository_path DIR": "list --list_models --model_repository_path DIR",
    "--list_models true --model_repository_path DIR": (
        "list --list_models --model_repository_path DIR"
    ),
    "--configure --task embeddings --model_path DIR": (
        "configure --task embeddings --model_path DIR"
    ),
    "--add_to_config --model_name m --config_path c.json --model_path DIR": (
        "add-to-config --model_name m --config_path c.json --model_path DIR"
    ),
    "--add_to_config c.json --model_name m --model_path DIR": (
        "add-to-config --config_path c.json --model_name m --model_path DIR"
    ),
    "--remove_from_config=c.json --model_name m": (
        "remove-from-config --config_path c.json --model_name m"
    ),
    "--model_name m --remove_from_config --config_path c.json": (
        "remove-from-config --model_name m --config_path c.json"
    ),
    "--source_model org/name --rest_port 8000": "serve --source_model org/name --rest_port 8000",
}


def words_of(table: str) -> list[tuple[str, str]]:
    words = table.split()
    return list(zip(words[::2], words[1::2], strict=True))


def parsed(*words: str) -> argparse.Namespace:
    return make_parser().parse_args(spread(words))


def test_the_library_of_tokenizers_in_the_image_is_that_of_the_package(tmp_path: Path) -> None:
    image = "/ovms/lib/libopenvino_tokenizers.so"
    assert parsed("serve", "--cpu_extension", image).cpu_extension == "openvino_tokenizers"
    own = tmp_path / "libopenvino_tokenizers.so"
    own.write_bytes(b"")
    assert parsed("serve", "--cpu_extension", str(own)).cpu_extension == str(own)


@pytest.mark.parametrize(("flag", "value"), words_of(SERVED))
def test_a_flag_is_taken_with_its_value(flag: str, value: str) -> None:
    name = flag[2:].replace("-", "_")
    args = parsed("serve", flag, value)
    default = parsed("serve")
    assert getattr(args, name) not in (None, getattr(default, name))
    assert name not in WITHOUT_EFFECT


@pytest.mark.parametrize(("flag", "value"), words_of(NO_EFFECT))
def test_a_flag_without_effect_has_a_reason(flag: str, value: str) -> None:
    assert getattr(parsed("serve", flag, value), flag[2:]) is not None
    _, reason = WITHOUT_EFFECT[flag[2:]]
    assert len(reason.split()) > 3


@pytest.mark.parametrize("words", NOT_SERVED)
@pytest.mark.parametrize("command", ["serve", "pull"])
def test_a_flag_that_is_not_served_says_why(
    command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(command, *words.split())
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert NOT_SERVED[words] in shown
    assert "\nhint: " in shown
    assert "unrecognized" not in shown


def test_every_refusal_is_in_this_table() -> None:
    flags = {words.split()[0].removeprefix("--") for words in NOT_SERVED}
    assert flags - {"task", "pipeline_type"} == set(REFUSED)
    assert {flag[2:] for flag, _ in words_of(NO_EFFECT)} == set(WITHOUT_EFFECT)


def test_a_flag_that_asks_for_nothing_is_not_refused() -> None:
    assert parsed("serve", "--stateful", "false", "--model_path", "DIR").model_path == "DIR"


@pytest.mark.parametrize("words", MODES)
def test_a_mode_is_the_command_that_does_the_same(words: str) -> None:
    assert spread(words.split()) == MODES[words].split()
    parsed(*words.split())


@pytest.mark.parametrize(
    "words",
    [
        "--list_models --pull",
        "--add_to_config --list_models",
        "--configure --pull",
        "--remove_from_config x --add_to_config x",
    ],
)
def test_modes_exclude_each_other(words: str) -> None:
    with pytest.raises(CommandFailed, match="exclude each other"):
        spread(words.split())


ONLY_NAME = (
    "Removing models from the configuration file allows passing only model_name parameter. "
    "Invalid parameters passed: "
)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--list_models --task embeddings", "--list_models cannot be used with --pull or --task"),
        (
            "--add_to_config --model_name m --model_path DIR --task embeddings",
            "--add_to_config cannot be used with --pull or --task",
        ),
        (
            "--remove_from_config --model_name m --task embeddings",
            "--remove_from_config cannot be used with --pull or --task",
        ),
        (
            "--remove_from_config --model_name m --model_path x",
            "--model_path cannot be used with --remove_from_config",
        ),
        ("--remove_from_config --model_name m --nireq 4", f"{ONLY_NAME}--nireq"),
        (
            "--remove_from_config --model_name m --model_repository_path x",
            f"{ONLY_NAME}--model_repository_path",
        ),
        (
            "--configure --model_path DIR --model_name m",
            "--model_name cannot be used with --configure",
        ),
    ],
)
def test_a_flag_that_a_mode_excludes_is_refused(
    words: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*words.split())
    assert ended.value.code == 2
    assert f"error: {text}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "--pull --source_model org/name --rest_port 9000 --log_level DEBUG --grpc_workers 2",
        "--list_models --metrics_enable --port 9000",
        "--add_to_config --model_name m --model_path DIR --config_path c --rest_port 8000",
        "--remove_from_config --model_name m --config_path c --rest_port 8000",
        "--configure --model_path DIR --overwrite_models",
    ],
)
def test_flags_of_a_server_have_no_effect_on_other_commands(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parsed(*words.split())
    shown = capsys.readouterr().err
    assert "has no effect on `graphrt " in shown
    assert "it is an option of `graphrt serve`" in shown


@pytest.mark.parametrize(("flag", "name"), SPELLINGS.items())
def test_a_further_spelling_says_the_same(flag: str, name: str) -> None:
    assert getattr(parsed("serve", flag, "60"), name) == getattr(
        parsed("serve", f"--{name}", "60"), name
    )


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("--source_modl", "did you mean `--source_model`?"),
        ("--weight_fromat", "did you mean `--weight_format`?"),
        ("--weights-format", "did you mean `--weight_format`?"),
        ("--prot", "did you mean `--port`?"),
        ("--max_num_seq", "did you mean `--max_num_seqs`?"),
        ("--served-model-name", "here it is --model_name NAME"),
        ("--host", "here it is --rest_bind_address HOSTS"),
        ("--quantization", "here it is --weight_format FORMAT"),
        ("--tool-call-parser", "here it is --tool_parser NAME"),
        ("--model_source", "see `graphrt serve --help`"),
        ("--seed", "see `graphrt serve --help`"),
        ("--max_model_len", "see `graphrt serve --help`"),
        ("--revision", "here it is MODEL@REVISION, without a flag"),
    ],
)
def test_a_hint_names_a_flag_only_if_it_means_the_same(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed("serve", word, "x")
    assert f"\nhint: {hint}\n" in capsys.readouterr().err


def test_the_address_of_a_model_in_a_store_is_written_as_it_is(tmp_path: Path) -> None:
    config = tmp_path / "c.json"

    def add(address: str) -> None:
        words = ("--add_to_config", str(config), "--model_name", "m", "--model_path", address)
        add_to_config.execute(parsed(*words))

    for wrong, reason in (("s3://b/../m", "cannot be read"), ("azfs://share/m", "are not read")):
        with pytest.raises(CommandFailed, match=reason):
            add(wrong)
    add("s3://bucket/m")
    (entry,) = json.loads(config.read_text())["model_config_list"]
    assert entry["config"] == {"name": "m", "base_path": "s3://bucket/m"}
