"""The documents agree with the code."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from calculators.images.image import decoding_turns
from calculators.images.image.encoded_image import ImageLimits
from calculators.images.media import image as images
from calculators.images.media import video
from calculators.images.media.download import MAX_REDIRECTIONS
from calculators.images.media.download import SECONDS as DOWNLOAD_SECONDS
from calculators.kit.checkpoints import gguf
from calculators.kit.checkpoints.converted_gguf import WAIT_SECONDS as CONVERSION_SECONDS
from calculators.kit.child_process import back_off
from calculators.kit.child_process.framing import MAX_FRAME
from calculators.kit.child_process.parent_connection import MOST_UNSENT
from calculators.kit.child_process.question_lane import WALL_SECONDS
from calculators.kit.child_process.supervisor import STALL_SECONDS
from calculators.kit.child_process.supervisor import TRANSITIONS as CHILD_TRANSITIONS
from calculators.kit.file_threads import ANSWER_SECONDS, AT_A_TIME
from calculators.kit.requests import tokenize_request
from calculators.kit.requests.request_queue import REQUEST_LIMIT
from calculators.kit.requests.request_record import MOST_WARNINGS
from calculators.kit.tasks import ENTRY_POINT_GROUP
from calculators.language import text_patterns
from calculators.language.moderation import moderation_calculator
from calculators.language.retrieval import passages as indexed_documents
from calculators.language.retrieval import retrieval_calculator as retrieval
from calculators.language.server_tools import messages as tool_messages
from calculators.llm import pdf_files, pdf_messages, pdf_process
from calculators.llm.api.anthropic import citations
from calculators.llm.engine.core import LONGEST, MOST_INFILL_CLIENTS, SECONDS_PER_STREAM
from calculators.llm.engine.engine import HANG_SECONDS
from calculators.llm.engine.scoring_engine import IDLE_SECONDS as SCORING_SECONDS
from calculators.llm.grammar_process import client as grammars
from calculators.llm.grammar_process.worker import SECONDS_PER_TOKEN
from calculators.llm.grammars import (
    array_rules,
    automaton,
    number_range,
    object_rules,
    regular_expression,
    rules,
    schema_document,
    schema_parts,
    schema_scalars,
)
from calculators.llm.prompt import client
from calculators.llm.prompt.chat_template.limits import LONGEST_TEMPLATE, RenderLimits
from calculators.llm.requests import structured_output
from calculators.llm.requests.checked_request import MAX_CHUNK_FRAMES
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.tools import (
    MAX_SCHEMA,
    MAX_TOGETHER,
)
from calculators.speech.audio import reading_process, sound_reader
from calculators.speech.audio.reading import MOST_CHANNELS
from calculators.speech.audio.sound import HIGHEST_RATE, LOWEST_RATE
from calculators.tensors.openvino.model import NUMBERS_ON_CPU
from calculators.text.text_models import batch_runner, text_model
from graph_runtime.engine.states import NODE_TRANSITIONS, RUN_TRANSITIONS
from servers.access import KEY_FILE_BYTES, MAX_KEY, MOST_HANDSHAKES
from servers.batch_work.inner_server import OUTAGE_SECONDS
from servers.batch_work.worker import MOST_RUNS
from servers.batches.batch_lines import LONGEST_ID, LONGEST_PATH
from servers.batches.objects import WINDOW_SECONDS
from servers.cli import scratch as tried
from servers.cli.batch_worker import STALL_SECONDS as HELD_SECONDS
from servers.config.entries import Scale
from servers.config.server_config import MAX_BYTES, MAX_ENTRIES
from servers.contract.data_plane import SERVABLE_TRANSITIONS
from servers.contract.failure import MAX_CHARS
from servers.fronts.body_room import CAPACITY, SLOW_SECONDS, WAIT_SECONDS
from servers.fronts.http.exchange import MOST_LISTED
from servers.fronts.http.kept_requests import MOST_IN_BACKGROUND
from servers.fronts.http.settings import HttpSettings
from servers.fronts.kserve_grpc.contents import MOST_HEAD_BYTES
from servers.fronts.kserve_grpc.gate import MOST_RESETS
from servers.fronts.kserve_grpc.settings import GrpcSettings
from servers.kept.items import MOST_ADDED
from servers.kept.store import LOST_SECONDS, PAGE_BYTES
from servers.model_store import object_store, stored_model
from servers.operations.loop_watchdog import STALL_SECONDS as LOOP_STALL_SECONDS
from servers.operations.request_log import MOST_WARNINGS as MOST_LOGGED
from servers.options.server_options import BatchOptions, GraphOptions
from servers.page import request_feed
from servers.page import scratch as drafts
from servers.page.feed import MOST_READERS, REQUESTS_PER_SECOND, REST
from servers.page.request_feed import KEPT as TOLD_AT_FIRST
from servers.page.views import MOST_IN_FOCUS, MOST_WATCHED
from servers.replicas.cluster import MAX_MESSAGE_BYTES
from servers.replicas.wire import WINDOW
from servers.server.client_models import MOST_PULLS
from servers.server.lifecycle import CLOSE_SECONDS, ServerSettings
from servers.server.workers import crew
from servers.server.workers.crew import METRICS_SECONDS
from servers.serving import stored_entry
from servers.serving.graph_runs import GIVE_UP_SECONDS
from servers.serving.served_entry import LOAD_WAIT_SECONDS, RETRY_SECONDS
from servers.serving.text_generation.text_model import STREAM_LIMIT
from tests.support.checkout import ROOT
from tests.support.markdown import DOCS, PAGES, text_of

INVARIANTS = text_of("docs/invariants.md")
LIMITS = text_of("docs/limits.md")
DECISIONS = DOCS / "decisions"
#: Packages of the checkout, as a regular expression.
ROOMS = "protos|graph_runtime|calculators|servers|tests|bench|examples"
#: Pages about the whole project, and those beside the code that they describe.
NAMING_PAGES = (
    *PAGES,
    *(page for room in ROOMS.split("|") for page in sorted((ROOT / room).rglob("*.md"))),
)


def rows_of(table: dict[Any, Any]) -> list[str]:
    return [
        f"| {state.name} | {event.name} | {then.name} |" for (state, event), then in table.items()
    ]


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("run", RUN_TRANSITIONS),
        ("node", NODE_TRANSITIONS),
        ("child", CHILD_TRANSITIONS),
        ("graph", SERVABLE_TRANSITIONS),
    ],
)
def test_the_state_tables_agree_with_the_code(name: str, table: dict[Any, Any]) -> None:
    match = re.search(rf"<!-- {name} table -->\n.*\n.*\n((?:\|.*\n)*)<!-- end -->", INVARIANTS)
    assert match is not None
    assert match.group(1).splitlines() == rows_of(table)


def test_every_checked_invariant_is_explained() -> None:
    code = (ROOT / "graph_runtime" / "engine" / "invariants.py").read_text(encoding="utf-8")
    checked = {int(number) for number in re.findall(r"_require\(\s*(\d+)", code)}
    explained = {int(number) for number in re.findall(r"^\| I(\d+) \|", INVARIANTS, re.M)}
    assert checked == explained


# One test for all pages: as a test for each they took longer to collect than to run.
def test_every_file_that_a_page_names_exists() -> None:
    file = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_0-9]+\.[a-z]+)?)`")
    missing = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in PAGES
        for path in file.findall(text_of(page))
        if not (ROOT / path).exists()
    ]
    assert missing == []


def test_every_module_that_a_page_names_exists() -> None:
    """Paths anywhere in the text, in commands too, and dotted names of modules and members."""
    missing: list[str] = []
    for page in NAMING_PAGES:
        text = text_of(page)
        paths = re.findall(rf"(?<![\w./-])(?:{ROOMS})(?:/[\w.-]+)+\.(?:py|pbtxt|proto|md)\b", text)
        names = [path for path in paths if not (ROOT / path).exists()]
        tests = re.findall(r"(tests/[\w/]+\.py)::(\w+)", text)
        names += [test for file, test in tests if f"def {test}(" not in text_of(file)]
        modules = re.findall(rf"(?<![\w./-])(?:{ROOMS})(?:\.\w+)+", text)
        names += [name for name in modules if not is_module_or_member(name)]
        missing += [f"{page.relative_to(ROOT)}: {name}" for name in names]
    assert missing == []


def is_module_or_member(name: str) -> bool:
    """Return True for a dotted module name, with or without the name of a member behind it."""
    module, _, member = name.rpartition(".")
    file = module_file(module)
    return module_file(name) is not None or (
        file is not None and re.search(rf"\b{member}\b", file.read_text("utf-8")) is not None
    )


def module_file(name: str) -> Path | None:
    path = ROOT.joinpath(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in candidates if file.is_file()), None)


def test_the_map_names_every_room() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)+)`", text_of("docs/map.md")))
    for package in ("graph_runtime", "calculators", "servers"):
        rooms = {
            f"{path.parent.relative_to(ROOT)}/" for path in ROOT.glob(f"{package}/*/__init__.py")
        }
        assert len(rooms) > 5
        assert rooms - named == set()


def test_the_modules_in_the_drawings_of_layers_exist() -> None:
    drawings = re.findall(r"^```\n(.*?)^```$", text_of("docs/map.md"), re.S | re.M)
    named = {name for drawing in drawings for name in re.findall(r"\b[a-z_0-9]+\.py\b", drawing)}
    assert len(named) > 60
    existing = {
        path.name
        for package in ("graphrt_base", "graph_runtime", "calculators", "servers")
        for path in (ROOT / package).rglob("*.py")
    }
    assert named - existing == set()


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_of_a_page_leads_somewhere() -> None:
    broken: list[str] = []
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.S | re.M)
        links = re.findall(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)", prose)
        for path, anchor in links:
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {path}#{anchor}")
    assert broken == []


def test_every_decision_has_its_number_its_parts_and_a_line_in_the_index() -> None:
    index = re.findall(r"^- \[(\d{4}): (.+)\]\((.+\.md)\)$", text_of(DECISIONS / "README.md"), re.M)
    files = sorted(path.name for path in DECISIONS.glob("*.md") if path.name != "README.md")
    assert [name for _, _, name in index] == files
    assert [number for number, _, _ in index] == [f"{n:04}" for n in range(1, len(files) + 1)]
    for number, title, name in index:
        text = text_of(DECISIONS / name)
        assert name.startswith(f"{number}-")
        assert text.startswith(f"# {title}\n")
        assert re.findall(r"^## (.*)$", text, re.M)[:3] == ["Context", "Decision", "Consequences"]


def test_every_invariant_of_the_server_names_the_tests_that_check_it() -> None:
    rows = re.findall(r"^\| S(\d+) \| .* \| (.*) \|$", INVARIANTS, re.M)
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) > 10
    assert all("`tests/" in tests for _, tests in rows)


def test_the_limits_agree_with_the_code() -> None:
    http, request, template = HttpSettings(), RequestLimits(), RenderLimits()
    grpc, image, batches = GrpcSettings(), ImageLimits(), BatchOptions()
    server = ServerSettings(graphs=(), http=http)
    told = [row.split(" | ")[1] for row in re.findall(r"^\| .* \|$", LIMITS, re.M)[1:]]
    expected = [
        f"{http.max_body_bytes >> 20} MiB (`--max_body_size`), {http.max_json_depth} levels, "
        f"{http.max_json_elements:,} values, numbers of 64 digits",
        f"{http.max_upload_bytes >> 20} MiB (`--max_upload_size`); {http.max_form_parts}, "
        f"{http.max_form_text_bytes >> 20} MiB; {http.max_part_headers}, "
        f"{http.max_part_header_bytes} bytes",
        f"{http.max_message_bytes >> 20} MiB; {http.max_sockets}; {http.socket_idle_seconds:g} s",
        f"{CAPACITY >> 20} MiB; {WAIT_SECONDS:g} s, {SLOW_SECONDS:g} s",
        f"{MOST_RESETS}, then it is disconnected",
        f"{MOST_HEAD_BYTES >> 10} KiB",
        f"{http.max_tensor_body_bytes >> 20} MiB, {http.max_tensor_json_elements:,} values; "
        f"{grpc.max_message_bytes >> 20} MiB, {grpc.max_parsed_bytes >> 20} MiB "
        "(`--max_body_size`)",
        f"{grpc.write_buffer_bytes >> 10} KiB; {grpc.max_unsent_bytes >> 20} MiB; {STREAM_LIMIT}",
        "; ".join(
            [f"{low} to {high}" for low, high in (NUMBERS_ON_CPU["i64"], NUMBERS_ON_CPU["u64"])]
            + [f"±{NUMBERS_ON_CPU['f64'][1]:g}"]
        ),
        f"{image.encoded_bytes // 10**6} MB, {image.pixels // 10**6} million pixels; "
        f"{image.scanned_pixels // 10**6} million; {decoding_turns.LARGE_PIXELS // 10**6} million; "
        f"{decoding_turns.ROOM_BYTES >> 30} GiB, {decoding_turns.ROOM_SECONDS:g} s",
        f"{http.header_seconds:g} s, {http.body_idle_seconds:g} s, {http.keep_alive_seconds:g} s; "
        f"{http.min_body_rate} bytes/s",
        f"{http.stall_seconds:g} s, {http.linger_seconds:g} s; {http.ping_seconds:g} s",
        f"{grpc.handshake_seconds:g} s",
        f"{grpc.stall_seconds:g} s; {grpc.idle_seconds:g} s (`--stream_idle_timeout`)",
        f"{http.max_connections} (`--max_connections`); {grpc.max_calls}",
        f"{MOST_HANDSHAKES}",
        f"{MAX_KEY} characters; {KEY_FILE_BYTES >> 20} MiB",
        f"{http.write_buffer_bytes >> 10} KiB; {http.max_unsent_bytes >> 20} MiB",
        f"{MOST_WARNINGS}; {MOST_LOGGED}",
        f"{MAX_CHARS} characters",
        f"{MOST_PULLS}",
        f"{REQUEST_LIMIT} (`--request_queue_limit`)",
        f"{WINDOW >> 10} KiB; {MAX_MESSAGE_BYTES >> 20} MiB; {Scale().max_ongoing_requests}, "
        f"{Scale().max_queued_requests} (`scale` in config.json)",
        f"{request.max_choices}, {request.max_stop_strings} of {request.max_stop_length} "
        f"characters, {request.max_tools}, {request.max_messages}, {request.max_prompts}, ...",
        f"{images.MAX_IMAGES}; {images.MAX_IMAGE_BYTES // 10**6} MB, "
        f"{images.MAX_PIXELS // 10**6} million; {images.MAX_SCANNED_PIXELS // 10**6} million; "
        f"{images.MAX_REQUEST_PIXELS // 10**6} million; "
        f"{images.MAX_SENT_PIXELS // 10**6} million; "
        f"{DOWNLOAD_SECONDS:g} s, {MAX_REDIRECTIONS} redirections",
        f"{images.MAX_VIDEOS}; {images.MAX_VIDEO_BYTES // 10**6} MB, {images.MAX_FRAMES}, "
        f"{images.MAX_FRAME_PIXELS // 10**6} million, {images.MAX_VIDEO_PIXELS // 10**6} million; "
        f"{images.MAX_FPS}; {video.MAX_DECODED_PIXELS // 10**6} million, {video.SECONDS:g} s",
        f"{sound_reader.MAX_SOUNDS}; {sound_reader.MAX_SOUND_SECONDS} s; {MAX_CHUNK_FRAMES}",
        f"{pdf_messages.MAX_BYTES >> 20} MiB, {pdf_process.MAX_PAGES}, "
        f"{pdf_process.MAX_CHARACTERS:,}; "
        f"{pdf_files.CPU_SECONDS:g} s, {pdf_files.MEMORY >> 30} GiB; "
        f"{pdf_files.MOST_AT_A_TIME}, {pdf_files.MOST_WAITING}",
        f"{citations.MOST_PASSAGES:,}, {citations.MOST_CHARACTERS:,}",
        f"{template.output_characters >> 20} Mi, {template.loop_ticks:,}; "
        f"{LONGEST_TEMPLATE >> 10} Ki characters, {template.compile_seconds:g} s",
        f"{client.SECONDS:g} s, {client.LONG_SECONDS:g} s, {client.FOR_TEMPLATE:.0%}; "
        f"{WALL_SECONDS:g} s, {WALL_SECONDS + client.LONG_SECONDS:g} s; "
        f"{client.SHORT_WAITING}, {client.LONG_WAITING}",
        f"{SCORING_SECONDS:g} s",
        f"{client.MEMORY >> 30} GiB; {client.IDLE_SECONDS:g} s",
        f"{tokenize_request.MAX_TEXTS}, {tokenize_request.MAX_CHARACTERS >> 20} Mi, "
        f"{tokenize_request.MAX_PADDED >> 20} Mi",
        f"{text_patterns.MAX_WIDTH:,} characters; {text_patterns.SECONDS * 1000:g} ms; "
        f"{moderation_calculator.MAX_WINDOW:,} characters",
        f"{retrieval.MOST_PASSAGES}, {retrieval.MOST_CHARACTERS:,}; "
        f"{indexed_documents.MAX_DOCUMENT_BYTES >> 20} MiB",
        f"{text_model.MOST_QUESTIONS}, {text_model.MOST_CHARACTERS >> 20} Mi; "
        f"{text_model.HANG_SECONDS:g} s; {batch_runner.HANG_SECONDS:g} s; "
        f"{text_model.MEMORY >> 30} GiB",
        str(MOST_INFILL_CLIENTS),
        f"{structured_output.MAX_SIZE >> 10} KiB; {structured_output.MAX_REGEX} characters; "
        f"{structured_output.MAX_CHOICES}",
        f"{MAX_SCHEMA >> 10} KiB, {MAX_TOGETHER >> 20} MiB",
        f"{tool_messages.MAX_MESSAGE >> 20} MiB; {tool_messages.MAX_ERROR} characters; "
        f"{tool_messages.MAX_AT_ONCE}, {tool_messages.MAX_TOOLS}",
        f"{grammars.SECONDS:g} s, {SECONDS_PER_TOKEN * 1e6:g} us; {grammars.HANG_SECONDS:g} s, "
        f"{grammars.MEMORY >> 30} GiB, "
        f"{grammars.MAX_WAITING}, {grammars.MAX_PROCESSES}",
        f"{MAX_FRAME >> 20} MiB",
        f"{SECONDS_PER_STREAM * 1000:g} ms per stream, at most {LONGEST * 1000:g} ms",
        f"{STALL_SECONDS:g} s; {HANG_SECONDS:g} s",
        f"{sound_reader.CPU_SECONDS:g} s, {sound_reader.WALL_SECONDS:g} s, "
        f"{sound_reader.MEMORY >> 30} GiB, {sound_reader.MOST_WAITING}; "
        f"{reading_process.SLICE_SECONDS:g} s; {reading_process.MOST_OPEN}, "
        f"{reading_process.MOST_BYTES >> 30} GiB",
        f"{LOWEST_RATE:,} to {HIGHEST_RATE:,}; {MOST_CHANNELS}",
        f"{LOOP_STALL_SECONDS:g} s; {GIVE_UP_SECONDS:g} s",
        f"{MAX_BYTES >> 20} MiB; {MAX_ENTRIES:,}",
        f"{ANSWER_SECONDS:g} s; {AT_A_TIME}",
        f"{LOAD_WAIT_SECONDS:g} s; {RETRY_SECONDS:g} s",
        f"{gguf.MOST_HEADER_BYTES >> 20} MiB; {gguf.MOST_TEXT_BYTES >> 20} MiB; "
        f"{gguf.MOST_VALUES:,}, {gguf.MOST_TENSORS:,}; {gguf.MOST_TEXTS:,}; {gguf.MOST_PARTS:,}",
        f"{object_store.MOST_FILES:,}; {object_store.CONNECT_SECONDS} s, "
        f"{object_store.SILENT_SECONDS} s, {object_store.ANSWER_SECONDS} s, "
        f"{object_store.RETRY_SECONDS} s; {stored_model.PIECE >> 20} MiB, "
        f"{stored_model.AT_A_TIME}, {stored_model.TRIES}; {stored_model.OTHERS_SECONDS:g} s; "
        f"{stored_entry.LOOK_SECONDS:g} s; {stored_entry.FIRST_PAUSE:g} to "
        f"{stored_entry.LONGEST_PAUSE:g} s",
        f"{GraphOptions().cache_dir_size >> 30} GiB (`--cache_dir_size`); {CONVERSION_SECONDS:g} s",
        f"{MOST_READERS}; {MOST_WATCHED}, {MOST_IN_FOCUS}; {REQUESTS_PER_SECOND}, {TOLD_AT_FIRST}; "
        f"{1 / REST:.0%}".replace("%", " %"),
        f"{request_feed.KEPT_TIMELINES}, {request_feed.MOST_AWAITED}; {request_feed.MOST_CALLS:,}; "
        f"{request_feed.KEPT_SECONDS:g} s",
        f"{drafts.RUN_SECONDS:g} s, {drafts.RUN_SECONDS + 1:g} s, {drafts.RUN_MEMORY >> 30} GiB, "
        f"{drafts.RUN_FILES >> 20} MiB; "
        f"{drafts.MOST_RUNS}; {tried.MOST_PACKETS:,}, {tried.VALUE_CHARS:,}, "
        f"{tried.ALL_CHARS >> 20} Mi",
        f"{drafts.CHECK_SECONDS:g} s, {drafts.QUICK_SECONDS:g} s; {drafts.CHECK_MEMORY >> 30} GiB; "
        f"{drafts.MOST_WAITING}; {drafts.IDLE_SECONDS:g} s; {tried.EDITS_SECONDS:g} s",
        f"{back_off.FIRST_DELAY:g} s, {back_off.LAST_DELAY:g} s, {back_off.GOOD_LIFE:g} s, "
        f"{crew.MOST_FAILURES}; {METRICS_SECONDS:g} s; {MOST_UNSENT >> 20} MiB",
        f"{batches.batch_max_requests:,} (`--batch_max_requests`), "
        f"{batches.batch_file_size >> 30} GiB (`--batch_file_size`), "
        f"{LONGEST_ID} and {LONGEST_PATH:,} characters; {MOST_RUNS}; {WINDOW_SECONDS // 3600} h; "
        f"{OUTAGE_SECONDS / 60:g} min",
        f"2; {HELD_SECONDS:g} s; 1 to 60 s",
        f"{http.max_stored_responses:,} (`--max_stored_responses`), "
        f"{http.max_stored_response_bytes >> 20} MiB (`--max_stored_response_size`), "
        f"{http.stored_response_minutes // 60} h (`--stored_response_minutes`); "
        f"{MOST_IN_BACKGROUND}; {LOST_SECONDS} s; {MOST_ADDED}; "
        f"{MOST_LISTED} and {PAGE_BYTES >> 20} MiB",
        f"{server.drain_seconds:g} s (`--drain_seconds`), {CLOSE_SECONDS:g} s",
        f"{schema_document.MAX_DEPTH}; {schema_document.MAX_PROPERTIES}; "
        f"{rules.MAX_SIZE:,} characters",
        f"{schema_parts.MAX_ALTERNATIVES}, of more the first are written; {schema_parts.MAX_PARTS}",
        f"{schema_document.MAX_PATTERN} characters; {regular_expression.MAX_DEPTH} deep; "
        f"{regular_expression.MAX_COUNT:,}; {automaton.MAX_STATES:,}",
        f"{schema_scalars.MAX_LENGTH:,}; {array_rules.MAX_ITEMS:,}; {object_rules.MAX_MEMBERS:,}",
        "are none: no answer is so long",
        f"{number_range.INTEGER_DIGITS}, {number_range.FRACTION_DIGITS}; {number_range.MAX_DIGITS}",
        f"{number_range.MAX_REMAINDER}",
        f"{array_rules.MAX_IN_ANY_ORDER}, {array_rules.MAX_DIFFERENT}",
        f"{object_rules.MAX_COUNTING:,} rules",
    ]
    found = [limit for limit in told if limit not in ("limit", "---")]
    for point in entry_points(group=ENTRY_POINT_GROUP):
        family = point.module.rpartition(".")[0]
        if find_spec(f"tests.{family}.limits") is not None:
            for limit in import_module(f"tests.{family}.limits").LIMITS:
                assert limit in found, family
                found.remove(limit)
    assert found == expected
