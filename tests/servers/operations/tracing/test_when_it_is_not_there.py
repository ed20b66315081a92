"""Without the extra, or without a collector, OpenTelemetry is not used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from servers.operations.tracing import TracingError, TracingSettings, start_traces
from servers.operations.tracing.settings import is_asked_for
from tests.servers.cli.process import COMMAND, environment
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
from servers.cli import main
sys.exit(main())
"""


def serve(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `graphrt serve` without OpenTelemetry; it ends for lack of a config at the latest."""
    own = {name: value for name, value in environment().items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, "serve", *words],
        env={**own, **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_a_server_without_a_collector_imports_nothing_of_it() -> None:
    code = """
import sys
import servers.cli.serve, servers.fronts.kserve_grpc.front, servers.operations.tracing
print([name for name in sys.modules if name.partition(".")[0] == "opentelemetry"])
"""
    done = subprocess.run(
        [COMMAND[0], "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_flags_error_names_the_extra_to_install() -> None:
    graph = "examples/graphs/hello.pbtxt"
    done = serve(graph, "--otlp_endpoint", "http://127.0.0.1:4318", "--rest_port", "auto")
    assert done.returncode == 1
    assert 'pip install "graphrt[otel]"' in done.stderr.splitlines()[-1]


def test_variables_alone_give_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "servers.operations.tracing.open_telemetry", None)
    with pytest.raises(TracingError, match="not installed"):
        start_traces(TracingSettings())
    done = serve(
        "examples/graphs/hello.pbtxt",
        "--rest_bind_address=256.0.0.1",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318",
    )
    assert "warning: OTEL_EXPORTER_OTLP_ENDPOINT has no effect: traces need" in done.stderr
    assert "cannot listen on 256.0.0.1" in done.stderr


def test_an_invalid_url_is_refused() -> None:
    for wrong in ("localhost:4318", "ftp://x", "http://", "http://[x"):
        done = serve("examples/graphs/hello.pbtxt", "--otlp_endpoint", wrong)
        assert done.returncode == 2
        assert "a URL is needed, http://localhost:4318" in done.stderr


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a:1"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://a:1"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1", "OTEL_SDK_DISABLED": "True"}, False),
    ],
)
def test_variables_turn_traces_on(variables: dict[str, str], asked: bool) -> None:
    assert is_asked_for(variables) is asked
