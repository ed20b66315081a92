"""`graphrt serve` with models in an object store: a language model, a store that hangs, workers."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.process.http_client import CHAT, HELLO
from tests.process.server_process import DEMO, ServerProcess
from tests.servers.cli.process import graphrt
from tests.servers.model_store.store_servers import Link, S3Server
from tests.servers.serving.models.test_models_of_graphs import graph_text
from tests.support.conditions import wait_until


def put_demo(s3: S3Server, bucket: str) -> None:
    """Write the model without its graph.pbtxt, as a hub has it."""
    for file in DEMO.iterdir():
        if file.name != "graph.pbtxt":
            s3.put(bucket, f"models/demo/{file.name}", file.read_bytes())


def test_a_language_model_is_served_from_a_store_with_options_of_its_task(
    s3: S3Server, bucket: str
) -> None:
    put_demo(s3, bucket)
    words = ("--model_path", f"s3://{bucket}/models/demo", "--model_name", "chat")
    with ServerProcess(*words, "--task", "text_generation", "--max_num_seqs", "2") as server:
        wait_until(server.is_ready, "the model is loaded")
        reply = server.client.post(CHAT, model="chat", messages=HELLO, max_tokens=3)
        assert reply.status == 200, reply.body
        server.send_signal()
        assert server.wait() == 0
    log = "".join(server.log)
    for word in ("key-of-the-test", "secret-of-the-test", "Traceback"):
        assert word not in log


def test_options_of_a_node_name_a_model_and_its_draft_in_a_store(
    s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    put_demo(s3, bucket)
    s3.put(bucket, "models/small", DEMO.parent / "demo_draft")
    graph = (DEMO / "graph.pbtxt").read_text(encoding="utf-8")
    named = f's3://{bucket}/models/demo" draft_models_path: "s3://{bucket}/models/small'
    (tmp_path / "graph.pbtxt").write_text(graph.replace("./", named))
    done = graphrt("validate", tmp_path)
    assert (done.returncode, "is in a store, and is not checked" in done.stderr) == (0, True)
    with ServerProcess(tmp_path) as server:
        wait_until(server.is_ready, "the model is loaded")
        body = {"model": tmp_path.name, "messages": HELLO, "max_tokens": 3}
        reply = server.client.post(CHAT, num_assistant_tokens=2, **body)
        assert reply.status == 200, reply.body


def test_workers_share_one_download(s3: S3Server, bucket: str) -> None:
    put_demo(s3, bucket)
    with Link(s3.endpoint) as link:
        address = f"s3://{link.endpoint}/{bucket}/models/demo"
        with ServerProcess(address, "--workers", "2") as server:
            wait_until(server.is_ready, "the model is loaded")
            reply = server.client.post(CHAT, model="demo", messages=HELLO, max_tokens=3)
            assert reply.status == 200, reply.body
        assert link.seen.count(b"/models/demo/config.json") == 1


def test_a_store_that_hangs_delays_neither_liveness_nor_other_models_nor_the_end(
    s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    with Link(s3.endpoint) as link:
        link.is_hanging = True
        config = {
            "mediapipe_config_list": [{"name": "demo", "base_path": str(DEMO)}],
            "model_config_list": [
                {"config": {"name": "far", "base_path": f"s3://{link.endpoint}/{bucket}/m"}}
            ],
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        with ServerProcess(tmp_path / "config.json") as server:
            wait_until(lambda: link.connections > 0, "the store is asked")
            assert server.is_live()

            def answers() -> bool:
                reply = server.client.post(CHAT, model="demo", messages=HELLO, max_tokens=3)
                return reply.status == 200

            wait_until(answers, "the other model answers")
            reply = server.client.get("/v2/models/far/ready")
            assert reply.status == 503
            server.send_signal(signal.SIGTERM)
            assert server.wait() == 0


def test_validate_accepts_a_graph_over_a_model_in_a_store(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "graph.pbtxt").write_text(graph_text("m"))
    config = {
        "mediapipe_config_list": [{"name": "g"}],
        "model_config_list": [{"config": {"name": "m", "base_path": "s3://bucket/m"}}],
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = graphrt("validate", tmp_path / "config.json")
    assert (done.returncode, "error" in done.stderr) == (0, False), done.stderr


def test_validate_says_that_a_store_is_not_looked_at(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    for address, status, text in (
        ("s3://bucket/m", 0, 'the model "m": its files are in a store, and are not checked'),
        ("azfs://share/m", 1, "Azure's file shares (azfs://) are not read"),
    ):
        listed = [{"config": {"name": "m", "base_path": address}}]
        config.write_text(json.dumps({"model_config_list": listed}))
        done = graphrt("validate", config)
        assert (done.returncode, text in done.stderr) == (status, True), done.stderr
