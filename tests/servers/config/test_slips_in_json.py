"""Slips in config.json that other languages allow, and paths that only a shell reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.config import ConfigError, read_config


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("  \n", "2:1", "the file is empty; a config without anything is {}"),
        ('{\n  // mine\n  "mediapipe_config_list": []}', "2:3", "JSON has no comments"),
        ('{\n  "mediapipe_config_list": [] # mine\n}', "2:31", "JSON has no comments"),
        ('{"mediapipe_config_list": [], }', "1:31", "a comma before the }"),
        ('{"mediapipe_config_list": [{"name": "a"}, ]}', "1:43", "a comma before the ]"),
        ("{'mediapipe_config_list': []}", "1:2", "texts of JSON stand in double quotes"),
    ],
)
def test_a_usual_slip_has_its_name(tmp_path: Path, text: str, place: str, message: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_config(tmp_path / "config.json")
    (finding,) = raised.value.findings
    assert message in finding.message
    assert f"config.json:{place.partition(':')[0]}:" in finding.to_text()


@pytest.mark.parametrize("key", ["base_path", "graph_path", "python_path"])
def test_a_home_directory_is_only_a_shells(tmp_path: Path, key: str) -> None:
    text = f'{{"mediapipe_config_list": [{{"name": "a", "{key}": "~/graphs"}}]}}'
    (tmp_path / "config.json").write_text(text)
    texts = [each.to_text() for each in read_config(tmp_path / "config.json").findings]
    (text,) = [each for each in texts if "~" in each]
    assert f'mediapipe_config_list[0].{key}: "~/graphs" begins with ~, which only a shell' in text
    assert str(Path("~/graphs").expanduser()) in text
