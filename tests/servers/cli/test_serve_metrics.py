"""`graphrt serve` with and without metrics, by flags and by config.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving, make_site


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return make_site(tmp_path)


def monitor(config: Path, **metrics: object) -> None:
    """Add ``monitoring`` to the config."""
    document = json.loads(config.read_text())
    config.write_text(json.dumps({**document, "monitoring": {"metrics": metrics}}))


def metrics_of(config: Path, *words: str) -> tuple[int, str]:
    """Status and text of /metrics of a server with these arguments."""
    with Serving(config.parent, config, *words).wait_until_serving() as serving:
        with serving.request("GET", "/metrics") as response:
            answer = response.status, response.read().decode()
        serving.send_signal()
        assert serving.end()[0] == 0
    return answer


def test_metrics_are_there_unless_they_are_switched_off(config: Path) -> None:
    status, text = metrics_of(config)
    assert status == 200
    assert 'ovms_current_graphs{name="echo"} 0' in text
    assert 'graphrt_model_ready{name="stream"} 1' in text
    assert metrics_of(config, "--metrics_enable=false")[0] == 404


def test_a_metric_says_which_group_of_graphs_is_loaded(config: Path) -> None:
    document = json.loads(config.read_text())
    for entry in document["mediapipe_config_list"]:
        entry["group_name"] = f"of {entry['name']}"
    config.write_text(json.dumps(document))
    _, text = metrics_of(config, "--idle_unload_timeout_seconds", "60")
    assert 'ovms_graph_loaded{name="echo"} 1' in text
    assert 'ovms_graph_loaded{name="stream"} 0' in text
    assert 'graphrt_model_ready{name="stream"} 1' in text


def test_the_config_can_switch_them_off_and_choose(config: Path) -> None:
    monitor(config, enable=True, metrics_list=["ovms_current_graphs"])
    status, text = metrics_of(config)
    assert status == 200
    assert "ovms_current_graphs" in text
    assert "ovms_requests_accepted" not in text
    document = json.loads(config.read_text())
    document["monitoring"]["metrics"] = {"enable": False}
    config.write_text(json.dumps(document))
    assert metrics_of(config)[0] == 404


def test_the_flags_and_the_config_do_not_both_say_it(config: Path) -> None:
    monitor(config, enable=True)
    done = graphrt("serve", "config.json", "--metrics_enable", cwd=config.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert "are exclusive with monitoring in the config file" in done.stderr


def test_a_name_in_the_config_that_is_none_is_found_by_validate(config: Path) -> None:
    monitor(config, enable=True, metrics_list=["ovms_requests_succes"])
    done = graphrt("validate", "config.json", cwd=config.parent)
    assert done.returncode == 1
    text = 'monitoring.metrics.metrics_list: Invalid name in metrics_list: "ovms_requests_succes".'
    assert f'{text} Did you mean "ovms_requests_success"' in done.stderr
