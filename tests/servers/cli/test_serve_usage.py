"""`graphrt serve` with what it cannot serve: what is wrong, and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import make_site


@pytest.fixture
def site(tmp_path: Path) -> Path:
    make_site(tmp_path)
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "error: what is to be served?"),
        ("config.json --config_path config.json", "use either CONFIG or --config_path"),
        ("config.json --model_path echo", "use either CONFIG or --model_path"),
        ("--config_path config.json --model_name a", "are exclusive with a config file"),
        ("config.json --model_name a", "--model_name is exclusive with a config file"),
        ("--model_path echo", "--model_path needs --model_name"),
        ("config.json --rest_port 0", "`--rest_port auto` takes a free port"),
        ("config.json --rest_port 70000", "a number from 0 to 65535 is needed"),
        ("config.json --rest_port 9000 --port 9000", "cannot have the same value"),
        ("config.json --port=x", "a number from 0 to 65535 is needed: 'x'"),
        ("config.json --grpc_bind_address a/b", "host names or IP addresses are needed"),
        ("config.json --grpc_channel_arguments grpc.x", "as in grpc.max_concurrent_streams=100: "),
        ("config.json --grpc_channel_arguments =1", "NAME=VALUE with commas between them"),
        ("config.json --grpc_channel_arguments a.b=4294967296", "gRPC's numbers have 32 bits"),
        ("config.json --rest_bind_address a/b", "host names or IP addresses are needed"),
        ("config.json --log_level LOUD", "TRACE, DEBUG, INFO, WARNING, ERROR"),
        ("config.json --drain_seconds -1", "a number of seconds from 0 on is needed"),
        ("config.json --drain_seconds=nan", "a number of seconds from 0 on is needed"),
        ("config.json --max_body_size 1X", "a number of bytes is needed"),
        ("config.json --request_queue_limit 0", "a number from 1 on is needed"),
        ("config.json --metrics_enable=perhaps", "true or false is needed"),
        (
            "config.json --metrics_list ovms_stream",
            'Invalid name in metrics_list: "ovms_stream". Did you mean "ovms_streams"?',
        ),
        ("config.json --metrics_list ovms_streams,ovms_streams", '"ovms_streams" stands twice'),
        ("config.json --metrics_list graphrt_build_info", "all graphrt_ families are always there"),
        ("config.json --metrics_list ovms_streams --metrics_enable=false", "has no sense with"),
        ("config.json --metrics_enable --rest_port 0 --port auto", "--rest_port 0 switches HTTP"),
        ("config.json --rest_prt 1", "did you mean `--rest_port`?"),
        ("config.json --open_routes metrics", "a path is needed, /metrics, or /v3/models* for all"),
        ("config.json --open_routes /a*b", "a path is needed"),
        ("config.json --allowed_origins page.example", "an origin is https://NAME or"),
        ("config.json --allowed_origins https://page.example/", "an origin is https://NAME or"),
        (
            "config.json --allowed_origins * --allow_credentials",
            "any page could act for its visitor",
        ),
        ("config.json --tls_key a", "--tls_certificate and --tls_key need each other"),
        ("config.json --ssl-certfile a", "--tls_certificate and --tls_key need each other"),
        ("config.json --tls_client_ca a", "--tls_client_ca needs --tls_certificate and --tls_key"),
        ("config.json --request_timeout soon", "a number of seconds from 0 on is needed"),
        ("config.json --max_connections 0", "a number from 1 on is needed"),
        ("config.json --allowed_media_domains https://a.example", "a name without http:// or path"),
        ("config.json --allowed_media_domains a.example:80", "a host is given without its port"),
        ("config.json --allowed_media_domains all,a.example", "`all` stands alone"),
    ],
)
def test_wrong_usage_is_exit_code_2(site: Path, words: str, message: str) -> None:
    done = graphrt("serve", *words.split(), cwd=site)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize("name", ["SIGHUP", "SIGTERM"])
def test_a_signal_during_the_start_is_no_failure(site: Path, name: str) -> None:
    kill = f"import os, signal\nos.kill(os.getpid(), signal.{name})\n"
    later = "" if name == "SIGTERM" else "raise ValueError('the start has gone on')\n"
    (site / "kills.py").write_text(kill + later)
    done = graphrt("serve", "config.json", "--calculators", "kills.py", cwd=site)
    assert done.returncode == (0 if name == "SIGTERM" else 1)
    assert ("the start has gone on" in done.stderr) == (name == "SIGHUP")
    assert "Traceback" not in done.stderr


def test_list_models_needs_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OVMS_MODEL_REPOSITORY_PATH", raising=False)
    done = graphrt("--list_models", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: Use --list_models with --model_repository_path\n" in done.stderr


def test_the_config_of_the_repository_is_served_if_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text("[")
    monkeypatch.setenv("OVMS_MODEL_REPOSITORY_PATH", str(tmp_path))
    done = graphrt("serve", cwd=tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path / 'config.json'} cannot be used" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("none.json", "none.json: error: no such file"),
        ("none", "none: no such file or directory"),
        ("none.pbtxt", "none.pbtxt: no such file"),
        ("empty", "there is no graph.pbtxt in this directory, and no model"),
        (".", "hint: for a config write `graphrt serve config.json`"),
        ("--model_name a --model_path none", "--model_path none: no such directory"),
        ("config.json --calculators none.py", "no such file"),
        ("config.json --log_path none/log", "--log_path none/log: No such file or directory"),
        ("config.json --allowed_local_media_path none", "none: no such directory"),
        ("config.json --api_key_file none", "error: none: no such file or directory"),
        ("config.json --api_key_file calcs.py", "error: calcs.py: line 1 is not a key"),
        ("config.json --tls_certificate a --tls_key b", "error: a: no such file or directory"),
        ("config.json --tls_certificate calcs.py --tls_key calcs.py", "in PEM's form are needed"),
        ("config.json --rest_bind_address 203.0.113.1", "error: cannot listen on 203.0.113.1:8000"),
        ("broken.json", 'broken.json:1:3: error: mediapipe: unknown key\nhint: did you mean "medi'),
    ],
)
def test_what_cannot_be_served_is_exit_code_1(site: Path, words: str, message: str) -> None:
    (site / "broken.json").write_text('{ "mediapipe": [] }')
    done = graphrt("serve", *words.split(), cwd=site)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
