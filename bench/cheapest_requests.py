"""The cheapest requests that cost most, for every path of every task and of the server.

    python -m bench.cheapest_requests [--only WORD ...] [--list] [--write FILE] [--slack 1]

Serves a small model of each task with two API keys. For each row one key sends its requests, from a
process of its own, and the other one asks for something small of the same task again and again.
The table has the bytes and the processor seconds of the attack, the growth of the memory of all
processes of the server at its peak, what is left of it after a while, the longest wait of the other
client, and the longest stall of the event loop. A row that misses an aim is marked, and the exit
code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp
import numpy as np
import soundfile
from PIL import Image

from bench.machine import add_write, cpu_seconds, describe_machine, publish
from tests.calculators.images.image_generation import image_models
from tests.calculators.images.media.pictures import scanned_jpeg
from tests.calculators.speech.audio.sounds import tone, wav
from tests.calculators.speech.text_to_speech import tone_model
from tests.process.server_process import ServerProcess
from tests.support.processes import children_of

ROOT: Final = Path(__file__).parents[1]
_MODELS: Final = ROOT / "examples" / "models"
_GRAPHS: Final = ROOT / "examples" / "graphs"
#: Aims: seconds that another client may wait longer, stall of the loop, MiB that may stay.
MOST_WAIT: Final = 1.0
MOST_SPEECH_WAIT: Final = 2.0
MOST_STALL: Final = 0.2
MOST_LEFT: Final = 64
_BACK_SECONDS: Final = 40.0
#: Seconds after which an attack is broken off: its clients leave.
_ATTACK_SECONDS: Final = 8.0
_MIB: Final = 1024 * 1024
_HELLO: Final = [{"role": "user", "content": "Hello"}]


@dataclass(frozen=True)
class Ask:
    """A request over HTTP.

    Attributes:
        json: the length of the JSON in front of the tensors of an inference; None without any.
    """

    path: str
    body: bytes = b""
    type: str = "application/json"
    method: str = "POST"
    json: int | None = None

    def headers(self, key: str) -> dict[str, str]:
        found = {"Authorization": f"Bearer {key}", "Content-Type": self.type}
        if self.json is not None:
            found["Inference-Header-Content-Length"] = str(self.json)
        return found

    @property
    def size(self) -> int:
        return len(self.path) + len(self.body)


@dataclass(frozen=True)
class Sent:
    """What an attack sent: how it was answered, bytes in and out, and the paths."""

    answers: Mapping[str, int]
    bytes_in: int
    bytes_out: int
    paths: frozenset[str]


#: Sends requests to a server, with a key.
Send = Callable[[str, str], Awaitable[Sent]]


@dataclass(frozen=True)
class Row:
    """One attack.

    Attributes:
        task: the part of the server that it is about.
        what: its requests, in words.
        send: makes the attack, in its own process.
        small: what the other client asks for.
        most_wait: the aim.
    """

    task: str
    what: str
    send: Callable[[], Send]
    small: Ask
    most_wait: float = MOST_WAIT

    @property
    def name(self) -> str:
        return f"{self.task}: {self.what}"


def post(path: str, **body: Any) -> Ask:
    return Ask(path, json.dumps(body).encode())


def form(path: str, file: bytes, name: str = "file", **fields: str) -> Ask:
    """Return a form with one file."""
    mark = uuid.uuid4().hex
    parts = [(f'name="{each}"', value.encode()) for each, value in fields.items()]
    parts.append((f'name="{name}"; filename="a"', file))
    body = b"".join(
        f"--{mark}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + value + b"\r\n"
        for head, value in parts
    )
    return Ask(path, body + f"--{mark}--\r\n".encode(), f"multipart/form-data; boundary={mark}")


def all_at_once(make: Callable[[], Iterable[Ask]]) -> Callable[[], Send]:
    """Send all requests at the same time, each on a connection of its own."""

    def prepared() -> Send:
        asks = list(make())

        async def send(url: str, key: str) -> Sent:
            answers: Counter[str] = Counter()
            out = 0

            async def one(session: aiohttp.ClientSession, ask: Ask) -> None:
                nonlocal out
                headers = ask.headers(key)
                try:
                    async with session.request(
                        ask.method, url + ask.path, data=ask.body, headers=headers
                    ) as answer:
                        out += len(await answer.read())
                        answers[str(answer.status)] += 1
                except (aiohttp.ClientError, ConnectionError) as error:
                    answers[type(error).__name__] += 1

            connector = aiohttp.TCPConnector(limit=0, force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session:
                tasks = [asyncio.create_task(one(session, ask)) for ask in asks]
                _, late = await asyncio.wait(tasks, timeout=_ATTACK_SECONDS)
                for task in late:
                    task.cancel()
                if late:
                    answers["left"] += len(late)
                await asyncio.gather(*late, return_exceptions=True)
            paths = frozenset(ask.path for ask in asks)
            return Sent(answers, sum(ask.size for ask in asks), out, paths)

        return send

    return prepared


def sockets(count: int, items: int) -> Callable[[], Send]:
    """Open sockets of /v3/realtime, each of which commits so many seconds of sound."""

    def prepared() -> Send:
        sound = (tone(1.0, 24_000) * 32767).astype("<i2").tobytes()
        append = json.dumps(
            {"type": "input_audio_buffer.append", "audio": base64.b64encode(sound).decode()}
        )
        commit = json.dumps({"type": "input_audio_buffer.commit"})
        manual = {"audio": {"input": {"turn_detection": None}}, "type": "transcription"}
        update = json.dumps({"type": "session.update", "session": manual})

        async def send(url: str, key: str) -> Sent:
            answers: Counter[str] = Counter()
            sent = received = 0

            async def one(session: aiohttp.ClientSession) -> None:
                nonlocal sent, received
                async with session.ws_connect(
                    f"{url}{_REALTIME}",
                    headers={"Authorization": f"Bearer {key}"},
                ) as socket:

                    async def speak() -> None:
                        nonlocal sent
                        await socket.send_str(update)
                        for _ in range(items):
                            await socket.send_str(append)
                            await socket.send_str(commit)
                            sent += len(append) + len(commit)

                    speaking = asyncio.create_task(speak())
                    done = 0
                    while done < items:
                        message = await socket.receive()
                        if message.type is not aiohttp.WSMsgType.TEXT:
                            break
                        received += len(message.data)
                        done += "transcription.completed" in message.data
                        done += "transcription.failed" in message.data
                    answers["ended"] += 1
                    speaking.cancel()

            async with aiohttp.ClientSession() as session:
                tasks = [asyncio.create_task(one(session)) for _ in range(count)]
                _, late = await asyncio.wait(tasks, timeout=_ATTACK_SECONDS)
                for task in late:
                    task.cancel()
                if late:
                    answers["left"] += len(late)
                await asyncio.gather(*tasks, return_exceptions=True)
            return Sent(answers, sent, received, frozenset({_REALTIME}))

        return send

    return prepared


def booleans(values: int) -> Mapping[str, Any]:
    """Return an inference of typed contents for an input that does not exist."""
    given = {"name": "nothing", "datatype": "BOOL", "shape": [values],
             "contents": {"bool_contents": [True] * values}}  # fmt: skip
    return {"model_name": "flowers", "inputs": [given]}


def grpc_calls(count: int, calls: Mapping[str, Mapping[str, Any]]) -> Callable[[], Send]:
    """Make each of these calls so many times at once; of streams with a message each."""

    def prepared() -> Send:
        async def send(url: str, key: str) -> Sent:
            import grpc

            from protos.pool import message_class

            answers: Counter[str] = Counter()
            metadata = (("authorization", f"Bearer {key}"),)
            bodies = {}
            for name, members in calls.items():
                request = "ModelInfer" if name == "ModelStreamInfer" else name
                made = message_class(f"inference.{request}Request")(**members)
                bodies[f"{GRPC_SERVICE}{name}"] = made.SerializeToString()
            async with grpc.aio.insecure_channel(f"127.0.0.1:{_grpc_port}") as channel:

                async def one(path: str, body: bytes) -> None:
                    try:
                        if path.endswith("ModelStreamInfer"):
                            stream = channel.stream_stream(path)
                            async for _ in stream(iter([body]), metadata=metadata):
                                pass
                        else:
                            await channel.unary_unary(path)(body, metadata=metadata)
                        answers["OK"] += 1
                    except grpc.aio.AioRpcError as error:
                        answers[error.code().name] += 1

                await asyncio.gather(*(one(*each) for each in bodies.items() for _ in range(count)))
            sent = count * sum(map(len, bodies.values()))
            return Sent(answers, sent, 0, frozenset(bodies))

        return send

    return prepared


GRPC_SERVICE: Final = "/inference.GRPCInferenceService/"
_GRPC_CALLS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ServerLive": {},
    "ServerReady": {},
    "ServerMetadata": {},
    "ModelReady": {"name": "demo"},
    "ModelMetadata": {"name": "demo"},
    "RepositoryIndex": {},
    "RepositoryModelLoad": {"model_name": "flowers"},
    "RepositoryModelUnload": {"model_name": "nothing"},
}
#: What is shown, to pages and to machines.
_PAGES: Final = (
    "/v2/health/live", "/v2/health/ready", "/health", "/version", "/v2", "/v1/config", "/metrics",
    "/openapi.json", "/docs", "/v3/models", "/v3/models/demo", "/", "/v1/calculators",
    "/v1/calculators/PassThroughCalculator", "/v1/graphs/demo", "/v1/graphs/demo/nodes/LLMExecutor",
    "/v1/requests/none", "/v2/models/demo", "/v2/models/demo/ready",
    "/api/tags", "/api/ps",
)  # fmt: skip
_grpc_port = 0


# What is sent ---------------------------------------------------------------------------------


def silent_flac(seconds: float, rate: int, channels: int = 1) -> bytes:
    """Return silence as FLAC, of which an hour has a few hundred bytes."""
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", rate, channels, format="FLAC", subtype="PCM_16") as writer:
        left = int(seconds * rate)
        while left:
            count = min(left, _MIB)
            writer.write(np.zeros((count, channels), np.int16))
            left -= count
    return file.getvalue()


def picture(side: int, mode: str = "1") -> bytes:
    """Return a square picture of one colour as PNG."""
    file = io.BytesIO()
    Image.new(mode, (side, side)).save(file, "PNG")
    return file.getvalue()


def seeing(*pictures: bytes) -> Ask:
    """Return a chat with pictures."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": "What is this?"}]
    for each in pictures:
        url = f"data:image/png;base64,{base64.b64encode(each).decode()}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    messages = [{"role": "user", "content": parts}]
    return post("/v3/chat/completions", model="shapes_vlm", messages=messages, max_tokens=4)


def spoken(file: bytes, path: str = "/v3/audio/transcriptions") -> Ask:
    return form(path, file, model="counter")


def chat(**members: Any) -> Ask:
    return post("/v3/chat/completions", **{"model": "demo", "messages": _HELLO, **members})


def _to_embed(words: int) -> dict[str, Any]:
    return {"content": {"parts": [{"text": "ab " * words}]}}


def embedding(verb: str, **body: Any) -> Ask:
    """Return a request of Google's API to the embedding model."""
    return post(f"/v1beta/models/docs_embedder:{verb}", **body)


_SAID: Final[list[Any]] = [{"role": "user", "parts": [{"text": "Hello"}]}]


def google(verb: str, contents: list[Any], tokens: int = 3) -> Ask:
    """Return a request of Google's API to the demo model."""
    config = {} if verb == "countTokens" else {"generationConfig": {"maxOutputTokens": tokens}}
    return post(f"/v1beta/models/demo:{verb}", contents=contents, **config)


def schema(**members: Any) -> dict[str, Any]:
    form = {"name": "x", "schema": {"type": "object", **members}}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


def tensor(values: int) -> Ask:
    return post(
        "/v2/models/flowers/infer",
        inputs=[{
            "name": "measurements", "datatype": "FP32", "shape": [values // 4, 4],
            "data": [1] * values,
        }],
    )  # fmt: skip


def classified(model: str, side: int) -> Ask:
    data = np.zeros((1, side, side, 3), np.uint8).tolist()
    tensor = {"name": "image", "datatype": "UINT8", "shape": [1, side, side, 3], "data": data}
    return post(f"/v2/models/{model}/infer", inputs=[tensor])


def pictured(file: bytes) -> Ask:
    """Return an inference of a graph that takes a picture."""
    data = len(file).to_bytes(4, "little") + file
    size = {"binary_data_size": len(data)}
    tensor = {"name": "image", "shape": [1], "datatype": "BYTES", "parameters": size}
    head = json.dumps({"inputs": [tensor]}).encode()
    path = "/v2/models/image_classification/infer"
    return Ask(path, head + data, "application/octet-stream", json=len(head))


_REALTIME: Final = "/v3/realtime?model=counter"
#: Requests about what is kept; nothing of it is there, except lists.
_KEPT: Final = (
    ("GET", "/v1/responses/resp_none"),
    ("GET", "/v1/responses/resp_none/input_items"),
    ("POST", "/v1/responses/resp_none/cancel"),
    ("POST", "/v1/conversations"),
    ("DELETE", "/v1/conversations/conv_none"),
    ("GET", "/v1/conversations/conv_none/items"),
    ("GET", "/v1/conversations/conv_none/items/msg_none"),
    ("GET", "/v1/chat/completions"),
    ("GET", "/v1/chat/completions/chatcmpl-none"),
    ("GET", "/v1/chat/completions/chatcmpl-none/messages"),
)
_LOOKUPS: Final = tuple(
    f"/{name}?model=demo"
    for name in (
        *("props", "slots", "tokenizer_info", "load", "info", "model_info", "health_generate"),
    )
)
#: The facts of encoders, by their task.
_FACTS: Final = {
    task: f"/info?model={model}"
    for task, model in (
        *(("embeddings", "docs_embedder"), ("rerank", "docs_ranker")),
        ("text_classification", "guard"),
    )
}
#: The paths that the rows of each name request, by the name of their task; "" is the server.
PATHS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "chat": ("text_generation", ("/v3/chat/completions",)),
    "completions": ("text_generation", ("/v3/completions",)),
    "responses": ("text_generation", ("/v3/responses",)),
    "messages": ("text_generation", ("/v3/messages",)),
    "guided grammars": ("text_generation", ("/v3/chat/completions",)),
    "templates": ("text_generation", ("/v3/chat/completions",)),
    "pictures in chats": ("text_generation", ("/v3/chat/completions",)),
    "tokenize": (
        "text_generation",
        ("/v3/tokenize", "/v3/detokenize", "/tokenize", "/detokenize"),
    ),
    "count_tokens": ("text_generation", ("/v3/messages/count_tokens",)),
    "google": (
        "text_generation",
        (
            "/v1beta/models/demo:generateContent",
            "/v1beta/models/demo:streamGenerateContent",
        ),
    ),
    "counts of google": ("text_generation", ("/v1beta/models/demo:countTokens",)),
    "ollama": ("text_generation", ("/api/chat", "/api/generate")),
    "llama.cpp, SGLang and text-generation-inference": (
        "text_generation",
        ("/completion", "/infill", "/apply-template", "/generate", "/generate_stream", "/"),
    ),
    "lookups of peers": ("text_generation", _LOOKUPS),
    "ollama's vectors": ("embeddings", ("/api/embed", "/api/embeddings")),
    **{f"facts, {task}": (task, (path,)) for task, path in _FACTS.items()},
    "retrieval": ("text_generation", ("/v3/chat/completions",)),
    "embeddings": ("embeddings", ("/v3/embeddings",)),
    "embed": ("embeddings", ("/v3/embed",)),
    "google's embeddings": (
        "embeddings",
        (
            "/v1beta/models/docs_embedder:embedContent",
            "/v1beta/models/docs_embedder:batchEmbedContents",
        ),
    ),
    "tokens of embeddings": ("embeddings", ("/v3/tokenize", "/v3/detokenize")),
    "rerank": ("rerank", ("/v3/rerank",)),
    "score": ("rerank", ("/v3/score",)),
    "tokens of rerank": ("rerank", ("/v3/tokenize", "/v3/detokenize")),
    "moderations": ("text_classification", ("/v3/moderations",)),
    "classify": ("text_classification", ("/v3/classify",)),
    "predict": ("text_classification", ("/v3/predict",)),
    "speech to text": ("speech2text", ("/v3/audio/transcriptions",)),
    "realtime": ("speech2text", (_REALTIME,)),
    "translations": ("speech2text", ("/v3/audio/translations",)),
    "text to speech": ("text2speech", ("/v3/audio/speech",)),
    "voices": ("text2speech", ("/v3/audio/voices?model=tones",)),
    "images": ("image_generation", ("/v3/images/generations",)),
    "images of images": ("image_generation", ("/v3/images/edits", "/v3/images/variations")),
    "python nodes": ("", ("/v3/chat/completions",)),
    "KServe REST": ("", ("/v2/models/flowers/infer",)),
    "KServe texts": ("", ("/v2/models/demo/generate", "/v2/models/demo/generate_stream")),
    "KServe pictures": ("", ("/v2/models/image_classification/infer",)),
    "KServe gRPC": ("", (f"{GRPC_SERVICE}ModelInfer", f"{GRPC_SERVICE}ModelStreamInfer")),
    "gRPC's other calls": ("", tuple(GRPC_SERVICE + name for name in _GRPC_CALLS)),
    "plain models": ("", ("/v2/models/flowers/infer",)),
    "files": ("", ("/v1/files", "/v1/files/file-none", "/v1/files/file-none/content")),
    "batches": ("", ("/v1/batches", "/v1/batches/batch_none", "/v1/batches/batch_none/cancel")),
    "cohere": ("text_generation", ("/v2/chat",)),
    "batches of messages": (
        "",
        (
            "/v1/messages/batches",
            "/v1/messages/batches/batch_none",
            "/v1/messages/batches/batch_none/results",
            "/v1/messages/batches/batch_none/cancel",
        ),
    ),
    "lengths of conversations": (
        "text_generation", ("/v3/responses/input_tokens", "/v3/responses/compact"),
    ),
    "what is kept": ("", tuple(path for _, path in _KEPT)),
    "pages": ("", _PAGES),
    "followed": ("", ("/v1/live", "/v1/graphs/demo/follow")),
    "drafts": ("", ("/v1/scratch/check", "/v1/scratch/run")),
    "repository": ("", ("/v1/config/reload", "/v2/repository/index",
                        "/v2/repository/models/flowers/load",
                        "/v2/repository/models/nothing/unload")),
}  # fmt: skip


_LONG: Final = {"max_tokens": 2000, "ignore_eos": True}
_TWICE: Final = [{"custom_id": "a", "params": {}}] * 2
_SMALL_CHAT: Final = chat(max_tokens=3)
_SMALL_SOUND: Final = spoken(wav(tone(1.0)))
_EMBED: Final = "/v3/embeddings"
_SMALL_EMBED: Final = post(_EMBED, model="docs_embedder", input="Hello")
_SMALL_RANK: Final = post("/v3/rerank", model="docs_ranker", query="Hello", documents=["a", "b"])
_SMALL_CLASSES: Final = post("/v3/moderations", model="guard", input="Hello")
_SMALL_SPEECH: Final = post("/v3/audio/speech", model="tones", input="Hello", voice="alloy")
_SMALL_IMAGE: Final = post("/v3/images/generations", model="tiny", prompt="a cat", size="64x64")
_SMALL_TOKENS: Final = post("/v3/tokenize", model="demo", text="Hello")
_SMALL_TENSOR: Final = tensor(4)


_DRAFT: Final = 'input_stream: "a"\n' + "".join(
    f'node {{ calculator: "PassThroughCalculator" input_stream: "a" output_stream: "b{n}" }}\n'
    for n in range(2000)
)


def _get(path: str) -> Ask:
    return Ask(path, method="GET")


def _tokens(model: str, subject: str) -> Callable[[], Send]:
    """Send 4 texts of a million characters and 4 lists of a million ids to the paths of a name."""
    whole: Mapping[str, Mapping[str, Any]] = {
        "tokenize": {"text": "ab " * 349_000}, "detokenize": {"tokens": [5] * 1_000_000},
    }  # fmt: skip
    return all_at_once(lambda: [
        post(path, model=model, **whole[path.rpartition("/")[2]])
        for path in PATHS[subject][1] for _ in range(8 // len(PATHS[subject][1]))
    ])  # fmt: skip


def _facts(task: str) -> Row:
    one = _get(_FACTS[task])
    return Row(f"facts, {task}", "200 at once", all_at_once(lambda: [one] * 200), one)


def _speech(what: str, send: Callable[[], Send]) -> Row:
    return Row("speech to text", what, send, _SMALL_SOUND, MOST_SPEECH_WAIT)


ROWS: Final = (
    Row("chat", "16 with n of 16, 2,000 tokens",
        all_at_once(lambda: [chat(n=16, temperature=1, **_LONG)] * 16), _SMALL_CHAT),
    Row("chat", "260 of 2,000 tokens", all_at_once(lambda: [chat(**_LONG)] * 260), _SMALL_CHAT),
    Row("completions", "40 prompts of 1,900 tokens",
        all_at_once(lambda: [
            post("/v3/completions", model="demo", prompt=[5 + n % 90] * 1900, max_tokens=8)
            for n in range(40)
        ]), _SMALL_CHAT),
    Row("chat", "8 of a million characters",
        all_at_once(lambda: [chat(messages=[{"role": "user", "content": "ab " * 350_000}])] * 8),
        _SMALL_CHAT),
    Row("chat", "8 of 30,000 messages",
        all_at_once(lambda: [chat(messages=_HELLO * 30_000)] * 8), _SMALL_CHAT),
    Row("completions", "16 with best_of of 16, 200 tokens",
        all_at_once(lambda: [post(
            "/v3/completions", model="demo", prompt="Hello", best_of=16, max_tokens=200,
            temperature=1, ignore_eos=True,
        )] * 16), _SMALL_CHAT),
    Row("responses", "64 of 2,000 tokens",
        all_at_once(lambda: [post(
            "/v3/responses", model="demo", input="Hello", max_output_tokens=2000)] * 64),
        post("/v3/responses", model="demo", input="Hello", max_output_tokens=3)),
    Row("google", "8 of 30,000 contents, and 64 streams of 2,000 tokens",
        all_at_once(lambda: [google("generateContent", _SAID * 30_000)] * 8
            + [google("streamGenerateContent", _SAID, 2000)] * 64),
        google("generateContent", _SAID, 3)),
    Row("cohere", "8 of 30,000 messages, 64 of 2,000 tokens with 1,000 documents",
        all_at_once(lambda: [post("/v2/chat", model="demo", messages=_HELLO * 30_000)] * 8
            + [post("/v2/chat", model="demo", messages=_HELLO, documents=["ab"] * 1000)] * 64),
        post("/v2/chat", model="demo", messages=_HELLO, max_tokens=3)),
    Row("counts of google", "4 of 349,000 words",
        all_at_once(lambda: [google("countTokens", [{"parts": [{"text": "ab " * 349_000}]}])] * 4),
        _SMALL_CHAT),
    Row("ollama", "8 of 30,000 messages, and 64 streams of 2,000 tokens",
        all_at_once(lambda: [post("/api/chat", model="demo", messages=_HELLO * 30_000)] * 8
            + [post("/api/generate", model="demo", prompt="Hello",
                    options={"num_predict": 2000})] * 64),
        post("/api/chat", model="demo", messages=_HELLO, options={"num_predict": 3})),
    Row("llama.cpp, SGLang and text-generation-inference",
        "128 of 2,000 tokens, 16 texts of a million characters, 8 of 30,000 messages",
        all_at_once(lambda: [
            *[post("/completion", model="demo", prompt="Hello", n_predict=2000)] * 32,
            *[post(path, model="demo", inputs="Hello", parameters={"max_new_tokens": 2000})
              for path in ("/generate", "/generate_stream") for _ in range(32)],
            *[post("/generate", model="demo", text="Hello", stream=True,
                   sampling_params={"max_new_tokens": 2000})] * 32,
            *[post("/infill", model="demo", input_prefix="ab " * 349_000, input_suffix="")] * 8,
            *[post("/", model="demo", inputs="ab " * 349_000)] * 8,
            *[post("/apply-template", model="demo", messages=_HELLO * 30_000)] * 8,
        ]), post(
            "/generate", model="demo", inputs="Hello", parameters={"max_new_tokens": 3})),
    Row("lookups of peers", "50 of each", all_at_once(
        lambda: [_get(path) for path in _LOOKUPS for _ in range(50)]), _get(_LOOKUPS[0])),
    *map(_facts, _FACTS),
    Row("messages", "64 of 2,000 tokens",
        all_at_once(lambda: [post(
            "/v3/messages", model="demo", messages=_HELLO, max_tokens=2000)] * 64),
        post("/v3/messages", model="demo", messages=_HELLO, max_tokens=3)),
    Row("guided grammars", "32 expressions that explode",
        all_at_once(lambda: [
            chat(guided_regex=f"((a|b|c{n})" + "{0,400}){0,400}", max_tokens=4) for n in range(32)
        ]), chat(max_tokens=4, **schema(properties={"a": {"type": "boolean"}}))),
    Row("templates", "16 with values of 1 MiB",
        all_at_once(lambda: [chat(chat_template_kwargs={"big": "x" * _MIB})] * 16), _SMALL_CHAT),
    Row("pictures in chats", "16 of one of 5,000 x 5,000",
        all_at_once(lambda: [seeing(picture(5000))] * 16), seeing(picture(64))),
    Row("pictures in chats", "8 of sixteen of 1,750 x 1,750",
        all_at_once(lambda: [seeing(*[picture(1750)] * 16)] * 8), seeing(picture(64))),
    Row("tokenize", "4 of a million characters, 4 of a million ids",
        _tokens("demo", "tokenize"),
        _SMALL_TOKENS),
    Row("count_tokens", "4 of a million characters",
        all_at_once(lambda: [post(
            "/v3/messages/count_tokens", model="demo",
            messages=[{"role": "user", "content": "ab " * 349_000}])] * 4), _SMALL_CHAT),
    Row("google's embeddings", "4 of 2,048 texts, and 16 of 48,000 characters",
        all_at_once(lambda: [embedding("batchEmbedContents", requests=[_to_embed(160)] * 2048)] * 4
            + [embedding("embedContent", **_to_embed(16_000))] * 16),
        embedding("embedContent", **_to_embed(1))),
    Row("embeddings", "4 of 2,048 texts",
        all_at_once(lambda: [post(_EMBED, model="docs_embedder", input=["ab " * 160] * 2048)] * 4),
        _SMALL_EMBED),
    Row("embed", "4 of 2,048 texts",
        all_at_once(lambda: [post(
            "/v3/embed", model="docs_embedder", inputs=["ab " * 160] * 2048)] * 4),
        _SMALL_EMBED),
    Row("ollama's vectors", "4 of 2,048 texts, and 64 of a text",
        all_at_once(lambda: [post(
            "/api/embed", model="docs_embedder", input=["ab " * 160] * 2048)] * 4
            + [post("/api/embeddings", model="docs_embedder", prompt="ab " * 160)] * 64),
        _SMALL_EMBED),
    Row("tokens of embeddings", "4 of a million characters, 4 of a million ids",
        _tokens("docs_embedder", "tokens of embeddings"), _SMALL_EMBED),
    Row("embeddings", "4 of a million token ids",
        all_at_once(lambda: [post(
            _EMBED, model="docs_embedder", input=[[5] * 512] * 2048)] * 4), _SMALL_EMBED),
    Row("rerank", "4 of 10,000 documents, 16 Mi characters",
        all_at_once(lambda: [post(
            "/v3/rerank", model="docs_ranker", query="Hello", documents=["ab " * 550] * 10_000,
        )] * 4), _SMALL_RANK),
    Row("score", "4 of 10,000 documents",
        all_at_once(lambda: [post(
            "/v3/score", model="docs_ranker", text_1="Hello", text_2=["ab " * 160] * 10_000,
        )] * 4), _SMALL_RANK),
    Row("tokens of rerank", "4 of a million characters, 4 of a million ids",
        _tokens("docs_ranker", "tokens of rerank"), _SMALL_RANK),
    Row("moderations", "8 of 2,048 texts",
        all_at_once(lambda: [post(
            "/v3/moderations", model="guard", input=["ab " * 160] * 2048)] * 8),
        _SMALL_CLASSES),
    Row("classify", "8 of 2,048 texts",
        all_at_once(lambda: [post("/v3/classify", model="guard", input=["ab " * 160] * 2048)] * 8),
        _SMALL_CLASSES),
    Row("predict", "8 of 2,048 texts",
        all_at_once(lambda: [post("/v3/predict", model="guard", inputs=["ab " * 160] * 2048)] * 8),
        _SMALL_CLASSES),
    _speech("two hours of silence", all_at_once(lambda: [spoken(silent_flac(7199, 1000))])),
    _speech("8 of two hours of silence",
            all_at_once(lambda: [spoken(silent_flac(7199, 16_000))] * 8)),
    _speech("4 of 120 s at 655 kHz, 8 channels",
            all_at_once(lambda: [spoken(silent_flac(120, 655_350, 8))] * 4)),
    _speech("60 of one second", all_at_once(lambda: [_SMALL_SOUND] * 60)),
    Row("realtime", "16 sockets, each 150 items of 1 s", sockets(16, 150), _SMALL_SOUND,
        MOST_SPEECH_WAIT),
    Row("translations", "two hours of silence",
        all_at_once(lambda: [spoken(silent_flac(7199, 1000), "/v3/audio/translations")]),
        _SMALL_SOUND, MOST_SPEECH_WAIT),
    Row("text to speech", "8 of 16,384 characters",
        all_at_once(lambda: [post(
            "/v3/audio/speech", model="tones", input="Hello there. " * 1260, voice="alloy")] * 8),
        _SMALL_SPEECH, MOST_SPEECH_WAIT),
    Row("voices", "256 at once", all_at_once(lambda: [_get(PATHS["voices"][1][0])] * 256),
        _SMALL_SPEECH, MOST_SPEECH_WAIT),
    Row("images", "8 of the largest size",
        all_at_once(lambda: [post(
            "/v3/images/generations", model="tiny", prompt="a cat", size="512x512", n=4)] * 8),
        _SMALL_IMAGE),
    Row("images", "8 of 100 steps, four of each",
        all_at_once(lambda: [post(
            "/v3/images/generations", model="tiny", prompt="a cat", size="256x256", n=4,
            steps=100)] * 8),
        _SMALL_IMAGE),
    Row("images of images", "8 edits and 8 variations of 5,000 x 5,000",
        all_at_once(lambda: [
            *[form("/v3/images/edits", picture(5000), "image", model="tiny", prompt="a cat")] * 8,
            *[form("/v3/images/variations", picture(5000), "image", model="tiny")] * 8,
        ]), _SMALL_IMAGE),
    Row("KServe REST", "8 of a million numbers",
        all_at_once(lambda: [tensor(1_000_000)] * 8), _SMALL_TENSOR),
    Row("KServe pictures", "64 of 6,300 x 6,300",
        all_at_once(lambda: [pictured(picture(6300, "RGB"))] * 64), pictured(picture(64, "RGB"))),
    Row("KServe pictures", "16 of 4,000 x 4,000 in 250 scans",
        all_at_once(lambda: [pictured(scanned_jpeg(4000, 250))] * 16),
        pictured(picture(64, "RGB"))),
    Row("KServe texts", "64 of 2,000 tokens, half of them streams",
        all_at_once(lambda: [
            post(path, text_input="Hello", max_tokens=2000, ignore_eos=True)
            for path in PATHS["KServe texts"][1] for _ in range(32)
        ]), _SMALL_CHAT),
    Row("KServe gRPC", "8 and 8 in streams of 4,000,000 booleans for no input",
        lambda: grpc_calls(8, dict.fromkeys(
            ("ModelInfer", "ModelStreamInfer"), booleans(4_000_000)))(), _SMALL_TENSOR),
    Row("gRPC's other calls", "64 of each", grpc_calls(64, _GRPC_CALLS), _SMALL_TENSOR),
    Row("plain models", "32 batches of 100,000 rows",
        all_at_once(lambda: [tensor(400_000)] * 32), _SMALL_TENSOR),
    Row("python nodes", "64 at once",
        all_at_once(lambda: [post("/v3/chat/completions", model="python_chat", messages=_HELLO)]
                    * 64),
        post("/v3/chat/completions", model="python_chat", messages=_HELLO)),
    Row("retrieval", "16 questions of a million characters",
        all_at_once(lambda: [chat(
            model="retrieval", messages=[{"role": "user", "content": "ab " * 349_000}])] * 16),
        chat(model="retrieval", max_tokens=3)),
    Row("files", "8 uploads of 8 MiB, 64 questions for a file that is not there",
        all_at_once(lambda: [
            *[form("/v1/files", b"{}\n" * (8 * _MIB // 3), purpose="batch")] * 8,
            *map(_get, PATHS["files"][1][1:] * 32),
        ]), _get("/v1/files")),
    Row("batches", "64 that are refused, 64 questions for one that is not there",
        all_at_once(lambda: [
            *[post("/v1/batches", input_file_id="file-none", endpoint="/v1/chat/completions",
                   completion_window="24h")] * 64,
            *[_get(PATHS["batches"][1][1]), post(PATHS["batches"][1][2])] * 32,
        ]), _get("/v1/batches")),
    Row("batches of messages", "8 of 30,000 requests that are refused, 64 questions for none",
        all_at_once(lambda: [
            *[post("/v1/messages/batches", requests=_TWICE * 15_000)] * 8,
            *[*map(_get, PATHS["batches of messages"][1][1:3]),
              post(PATHS["batches of messages"][1][3])] * 21,
        ]), _get("/v1/messages/batches")),
    Row("lengths of conversations", "4 of a million characters, 16 summaries of 2,000 tokens",
        all_at_once(lambda: [
            *[post("/v3/responses/input_tokens", model="demo", input="ab " * 349_000)] * 4,
            *[post("/v3/responses/compact", model="demo", input="Hello",
                   max_output_tokens=2000)] * 16,
        ]), post("/v3/responses/input_tokens", model="demo", input="Hello")),
    Row("what is kept", "64 conversations of a million characters, 32 of each other request",
        all_at_once(lambda: [
            *[post("/v1/conversations", items=[{"role": "user", "content": "ab " * 349_000}])] * 64,
            *[Ask(path, method=method) for method, path in _KEPT for _ in range(32)],
        ]), post("/v1/conversations")),
    Row("pages", "16 of each", all_at_once(lambda: list(map(_get, _PAGES * 16))), _SMALL_CHAT),
    Row("followed", "64 who watch, 64 who follow",
        all_at_once(lambda: [
            _get("/v1/live"), post("/v1/graphs/demo/follow", next=1)] * 64), _SMALL_CHAT),
    Row("drafts", "16 checked, 16 run, of 2,000 nodes",
        all_at_once(lambda: [
            post(path, text=_DRAFT) for path in PATHS["drafts"][1] for _ in range(16)
        ]), _SMALL_CHAT),
    Row("repository", "32 reloads, 32 of each other call",
        all_at_once(lambda: list(map(post, PATHS["repository"][1] * 32))), _SMALL_TENSOR),
)  # fmt: skip


# The server -------------------------------------------------------------------------------------


#: Models of the examples that have no graph, and their tasks.
_CONFIGURED: Final = {
    "counter": "speech2text",
    "docs_embedder": "embeddings",
    "docs_ranker": "rerank",
    "guard": "text_classification",
}


def _graphrt(*words: str) -> None:
    command = [sys.executable, "-m", "servers.cli", *words]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)


def make_config(folder: Path) -> Path:
    """Write a config with a model of each task; return its path."""
    tone_model.make_model(folder / "tones", text=tone_model.graph())
    tone_model.make_voice(folder / "tones" / "voices" / "alloy.bin", 0.5)
    image_models.make_model(folder / "tiny", text=image_models.graph())
    for name, task in _CONFIGURED.items():
        shutil.copytree(_MODELS / name, folder / name)
        words = ["--task", task, "--model_path", str(folder / name)]
        _graphrt("configure", *words)
    shutil.copytree(_GRAPHS / "retrieval", folder / "retrieval")
    graph = folder / "retrieval" / "graph.pbtxt"
    text = graph.read_text("utf-8")
    for name in ("demo", "docs_embedder"):
        text = text.replace(f"../../models/{name}", str(_MODELS / name))
    graph.write_text(text, "utf-8")
    index = str(folder / "retrieval" / "docs.db")
    model = str(_MODELS / "docs_embedder")
    _graphrt("index", "README.md", "docs/access.md", "--model", model, "--out", index)
    entries: list[dict[str, Any]] = [
        *({"name": name, "base_path": str(_MODELS / name)}
          for name in ("demo", "shapes_vlm")),
        *({"name": name, "base_path": str(folder / name)}
          for name in ("tones", "tiny", "retrieval", *_CONFIGURED)),
        {"name": "flowers", "base_path": str(_GRAPHS / "flowers"),
         "subconfig": str(_GRAPHS / "flowers" / "subconfig.json")},
        {"name": "image_classification", "base_path": str(_GRAPHS / "image_classification"),
         "subconfig": str(_GRAPHS / "image_classification" / "subconfig.json")},
        {"name": "python_chat", "base_path": str(_GRAPHS / "python_chat")},
    ]  # fmt: skip
    config = folder / "config.json"
    config.write_text(json.dumps({"mediapipe_config_list": entries}), "utf-8")
    return config


class Watcher:
    """Looks at a server: memory of its processes, and its event loop."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._prober = subprocess.Popen(
            [sys.executable, "-m", "tests.reliability.hostile.prober", str(server.port),
             str(server.pid)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
        )  # fmt: skip
        self.stall = 0.0
        #: MiB by process.
        self.memory: dict[str, float] = {}
        self.peak = 0.0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._prober.stdout is not None
        for line in self._prober.stdout:
            seen = json.loads(line)
            if "memory" in seen:
                self.memory = seen["memory"]
                self.peak = max(self.peak, self.total)
            else:
                self.stall = max(self.stall, seen["seconds"] - seen["starved"])

    @property
    def total(self) -> float:
        return sum(self.memory.values())

    def grown(self, before: Mapping[str, float]) -> float:
        """Return the growth of the processes that were there before, without those that shrank."""
        memory = self.memory
        return sum(max(0.0, memory.get(name, 0.0) - size) for name, size in before.items())

    def cpu_seconds(self) -> float:
        total = 0.0
        for pid in (self._server.pid, *children_of(self._server.pid)):
            try:
                total += cpu_seconds(pid)
            except OSError:
                continue
        return total

    def close(self) -> None:
        self._prober.kill()
        self._prober.wait()


class Client:
    """The other client: asks for something small until it is stopped."""

    def __init__(self, port: int, key: str, ask: Ask) -> None:
        self._port, self._key, self._ask = port, key, ask
        self.waits: list[float] = []
        self.statuses: Counter[int] = Counter()

    def ask(self) -> float:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=150)
        begin = time.monotonic()
        try:
            headers = self._ask.headers(self._key)
            connection.request(self._ask.method, self._ask.path, self._ask.body or None, headers)
            answer = connection.getresponse()
            answer.read()
            self.statuses[answer.status] += 1
        except (OSError, HTTPException):
            self.statuses[0] += 1
        finally:
            connection.close()
        self.waits.append(time.monotonic() - begin)
        return self.waits[-1]


def _attack(name: str, url: str, key: str, grpc_port: int, pipe: Any) -> None:
    """Run one attack in a process of its own."""
    global _grpc_port
    _grpc_port = grpc_port
    send = next(row for row in ROWS if row.name == name).send()
    pipe.send("ready")
    pipe.recv()
    begin = time.monotonic()
    sent = asyncio.run(_run(send, url, key))
    pipe.send((sent, time.monotonic() - begin))


async def _run(send: Send, url: str, key: str) -> Sent:
    return await send(url, key)


@dataclass(frozen=True)
class Measured:
    """What one row cost. Memory in MiB."""

    row: Row
    sent: Sent
    seconds: float
    cpu: float
    grown: float
    left: float
    calm: float
    wait: float
    stall: float
    statuses: Mapping[int, int]

    def problems(self, slack: float) -> list[str]:
        """Return the aims that were missed."""
        found = []
        if self.wait - self.calm > self.row.most_wait * slack:
            found.append("wait")
        if self.stall > MOST_STALL * slack:
            found.append("stall")
        if self.left > MOST_LEFT * slack:
            found.append("memory")
        if set(self.statuses) - {200}:
            found.append("answers " + " ".join(map(str, sorted(self.statuses))))
        return found

    def cells(self, slack: float) -> Sequence[str]:
        by_kind = sorted(self.sent.answers.items())
        answers = ", ".join(f"{count} x {what}" for what, count in by_kind)
        return (
            self.row.task,
            self.row.what,
            _size(self.sent.bytes_in),
            answers,
            f"{self.seconds:.1f}",
            f"{self.cpu:.1f}",
            f"{self.grown:+.0f}",
            f"{self.left:+.0f}",
            f"{self.calm:.2f}",
            f"{self.wait:.2f}",
            f"{self.stall * 1000:.0f}",
            ", ".join(self.problems(slack)),
        )


_HEADS: Final = ("task", "requests", "sent", "answers", "s", "CPU s", "peak MiB", "left MiB",
                 "calm s", "other s", "stall ms", "beyond the aim")  # fmt: skip


def _size(count: int) -> str:
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def measure(row: Row, server: ServerProcess, grpc_port: int, watcher: Watcher) -> Measured:
    """Run one attack beside the other client."""
    client = Client(server.port, "bob", row.small)
    until = time.monotonic() + _BACK_SECONDS
    while time.monotonic() < until:  # it may still load, or end what was left
        client.ask()
        if client.statuses[200]:
            break
        time.sleep(1.0)
    client.statuses.clear()
    calm = median(client.ask() for _ in range(5))
    client.waits.clear()
    here, there = multiprocessing.get_context("spawn").Pipe()
    attacker = multiprocessing.get_context("spawn").Process(
        target=_attack, args=(row.name, server.url, "ann", grpc_port, there)
    )
    attacker.start()
    here.recv()
    time.sleep(0.5)
    before, cpu = watcher.memory, watcher.cpu_seconds()
    watcher.stall, watcher.peak = 0.0, watcher.total
    total = watcher.total
    here.send("go")
    while not here.poll():
        client.ask()
        time.sleep(0.1)
    sent, seconds = here.recv()
    assert sent.paths == frozenset(PATHS[row.task][1]), row.name
    client.ask()
    attacker.join()
    spent = watcher.cpu_seconds() - cpu
    stall, peak = watcher.stall, watcher.peak
    until = time.monotonic() + _BACK_SECONDS
    while watcher.grown(before) > MOST_LEFT and time.monotonic() < until:
        time.sleep(1.0)
    return Measured(
        row, sent, seconds, spent, peak - total, watcher.grown(before), calm, max(client.waits),
        stall, client.statuses,
    )  # fmt: skip


def table(measured: Sequence[Measured], slack: float) -> str:
    """Return the rows as a table."""
    lines = [_HEADS, ["---"] * len(_HEADS), *(each.cells(slack) for each in measured)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="+", metavar="WORD", help="rows with this in their name")
    parser.add_argument("--list", action="store_true", help="the names of all rows")
    parser.add_argument("--slack", type=float, default=1.0, help="multiplies the aims")
    add_write(parser)
    given = parser.parse_args()
    rows = [
        row for row in ROWS if given.only is None or any(word in row.name for word in given.only)
    ]
    if given.list or not rows:
        print(*(row.name for row in rows or ROWS), sep="\n")
        return 0 if given.list else 2
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        keys = folder / "keys.txt"
        keys.write_text("ann\nbob\n", "utf-8")
        words = ("--api_key_file", str(keys), "--port", "auto", "--batch_dir", str(folder / "b"),
                 "--page_edit", "true")  # fmt: skip
        with ServerProcess(make_config(folder), *words) as server:
            grpc_port = int(server.wait_for_log(r"serves grpc://\S+:(\d+)")[1])
            _wait_until_ready(server)
            watcher = Watcher(server)
            for row in rows:
                measured.append(measure(row, server, grpc_port, watcher))
                print(" | ".join(measured[-1].cells(given.slack)), flush=True)
            watcher.close()
    publish(_report(measured, given.slack), given.write)
    return 1 if any(each.problems(given.slack) for each in measured) else 0


def _wait_until_ready(server: ServerProcess) -> None:
    until = time.monotonic() + 10 * _BACK_SECONDS
    while not server.is_ready() and time.monotonic() < until:
        time.sleep(0.5)


def _report(measured: Sequence[Measured], slack: float) -> str:
    about = (
        "One API key sends the requests of a row at the same time; another one asks for something "
        'small of the same task, again and again. "calm" is its answer before, "other" its longest '
        "answer beside the attack. A stall is the longest wait for `/v2/health/live` without the "
        "time in which a thread had no processor. The memory is that of all processes of the "
        "server: its growth at the peak, and what is left after at most "
        f"{_BACK_SECONDS:.0f} s in those that were there before. An attack "
        f'is broken off after {_ATTACK_SECONDS:.0f} s: "left" are clients without an answer then. '
        f"Aims: others wait at most {MOST_WAIT:.0f} s more, {MOST_SPEECH_WAIT:.0f} s for speech; a "
        f"stall of at most {MOST_STALL * 1000:.0f} ms; {MOST_LEFT} MiB left."
    )
    return (
        "# The cheapest requests that cost most\n\n"
        f"`python -m bench.cheapest_requests` on {describe_machine()}.\n\n"
        f"{textwrap.fill(about, 140)}\n\n{table(measured, slack)}"
    )


if __name__ == "__main__":
    sys.exit(main())
