"""The store of responses: chains, owners, bounds by client, and what a new process finds."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.api.openai.responses_object import ItemIds
from graph_runtime import Code
from servers.batches import objects
from servers.batches.store import BatchStore
from servers.kept.items import completion_of, items_of, key_of, place_of
from servers.kept.store import (
    KeptBounds,
    KeptContext,
    KeptKind,
    KeptObject,
    KeptStatus,
    ResponseStore,
    ResponseStoreError,
)

MOST = 1 << 20


@pytest.fixture
def store() -> Iterator[ResponseStore]:
    made = ResponseStore(KeptBounds())
    yield made
    made.close()


def body(name: str, text: str = "Hi.", status: str = "completed") -> bytes:
    output = [{"id": f"msg_of_{name}", "type": "message", "role": "assistant", "content": text}]
    return json.dumps({"id": name, "status": status, "output": output}).encode()


def keep(
    store: ResponseStore, name: str, *, owner: str = "", previous: str = "", given: Any = "Hello"
) -> None:
    request = json.dumps({"input": given}).encode()
    new = KeptObject(
        kind=KeptKind.RESPONSE, owner=owner, request=request, body=body(name), previous=previous
    )
    assert store.add(new)


def context(store: ResponseStore, given: Any, *, owner: str = "", **names: str) -> KeptContext:
    asked = {"previous": "", "conversation": "", **names}
    return store.context(owner, {"input": given}, most_bytes=MOST, **asked)


def refused(ask: Callable[[], object]) -> RequestError:
    with pytest.raises(RequestError) as raised:
        ask()
    return raised.value


def test_a_response_continues_the_ones_before_it(store: ResponseStore) -> None:
    keep(store, "one", given="First")
    keep(store, "two", given=[{"role": "user", "content": "Second"}], previous="one")
    found = context(store, "Third", previous="two")
    texts = [item["content"] for item in found.input]
    assert texts == [
        [{"type": "input_text", "text": "First"}],
        "Hi.",
        [{"type": "input_text", "text": "Second"}],
        "Hi.",
        "Third",
    ]
    assert found.earlier == 4
    assert [item["id"] for item in store.input_items("two", "")][1] == "msg_of_one"
    again = [item["id"] for item in store.input_items("two", "")]
    assert [item["id"] for item in store.input_items("two", "")] == again


def test_items_are_named_by_their_ids(store: ResponseStore) -> None:
    keep(store, "one", given=[{"role": "user", "content": "First"}])
    (mine,) = store.input_items("one", "")
    for named in (mine["id"], "msg_of_one"):
        found = context(store, [{"type": "item_reference", "id": named}, {"id": named, "n": 1}])
        assert [item["id"] for item in found.input] == [named, named]
        # What is kept of the request is the item, so that references never form a circle.
        assert b"item_reference" not in found.own
    error = refused(lambda: context(store, [{"type": "item_reference", "id": "rs_1"}]))
    assert (error.param, "rs_1" in str(error)) == ("input[0]", True)


def test_items_of_answers_are_named_by_their_ids(store: ResponseStore) -> None:
    ids = ItemIds(name := f"resp_{'01234567' * 5}")
    items = [
        {"id": ids.new(kind), "type": "message", "content": text}
        for kind, text in (("rs", "Hm."), ("msg", "Hi."))
    ]
    # An item that another answer has made keeps its id.
    items += [{"id": f"msg_{'f' * 32}", "type": "message", "content": "Before."}]
    answer = json.dumps({"id": name, "status": "completed", "output": items}).encode()
    new = KeptObject(kind=KeptKind.RESPONSE, owner="", request=b'{"input":"x"}', body=answer)
    assert store.add(new)
    keep(store, f"resp_{'01234569' * 5}")
    named = [{"type": "item_reference", "id": item["id"]} for item in items]
    assert context(store, named).input == items
    unknown = {"type": "item_reference", "id": ids.new("msg")}
    assert refused(lambda: context(store, [unknown])).code is Code.NOT_FOUND
    assert refused(lambda: context(store, named, owner="other")).code is Code.NOT_FOUND


def test_a_client_has_its_own_only(store: ResponseStore) -> None:
    keep(store, "one", owner="a")
    conversation = store.add_conversation("conv", "a", {}, [{"role": "user", "content": "x"}])["id"]
    [item], _ = store.items("conv", "a", after="", limit=9, ascending=True)
    asks: tuple[Callable[[], object], ...] = (
        lambda: store.response("one", "b"),
        lambda: store.input_items("one", "b"),
        lambda: store.cancel("one", "b"),
        lambda: store.delete("one", "b", KeptKind.RESPONSE),
        lambda: store.conversation(conversation, "b"),
        lambda: store.item(conversation, "b", item["id"]),
        lambda: context(store, "x", owner="b", previous="one"),
        lambda: context(store, "x", owner="b", conversation=conversation),
        lambda: context(store, [{"type": "item_reference", "id": "msg_of_one"}], owner="b"),
        lambda: context(store, [{"type": "item_reference", "id": item["id"]}], owner="b"),
    )
    for ask in asks:
        assert "another client" in str(refused(ask))
    assert store.response("one", "a")[1] is KeptStatus.COMPLETED


def test_what_continues_a_deleted_response_is_refused(store: ResponseStore) -> None:
    keep(store, "one")
    keep(store, "two", previous="one")
    store.delete("one", "", KeptKind.RESPONSE)
    error = refused(lambda: context(store, "x", previous="two"))
    assert (error.param, error.reason) == ("previous_response_id", "previous_response_not_found")
    assert '"two" continues "one"' in str(error)
    assert [item["type"] for item in store.input_items("two", "")] == ["message"]


def test_a_circle_of_responses_is_refused(store: ResponseStore) -> None:
    keep(store, "one", previous="two")
    keep(store, "two", previous="one")
    assert "circle" in str(refused(lambda: context(store, "x", previous="two")))


def test_earlier_items_have_the_limit_of_a_request(store: ResponseStore) -> None:
    keep(store, "one", given="x" * 1000)
    keep(store, "two", given="x" * 1000, previous="one")
    store.add_conversation("conv", "", {}, [{"role": "user", "content": "x" * 2000}])
    for names in ({"previous": "two"}, {"conversation": "conv"}):
        given = {"previous": "", "conversation": "", **names}
        asked = lambda given=given: store.context("", {}, most_bytes=2000, **given)  # noqa: E731
        assert "more than 2000 bytes" in str(refused(asked))


def test_the_client_with_the_most_loses_its_oldest() -> None:
    store = ResponseStore(KeptBounds(objects=10))
    keep(store, "mine", owner="a")
    for number in range(30):
        keep(store, f"r{number}", owner="b")
    assert store.response("mine", "a")
    refused(lambda: store.response("r20", "b"))
    assert store.response("r21", "b")


def test_bytes_have_a_bound_of_their_own() -> None:
    store = ResponseStore(KeptBounds(size=20_000))
    keep(store, "mine", owner="a", given="x" * 4000)
    for number in range(10_000):
        store.add_conversation(f"conv{number}", "b", {}, [])
    assert store.response("mine", "a")
    count = sum(_is_there(store, f"conv{number}", "b") for number in range(10_000))
    assert 10 < count < 30
    large = KeptObject(
        kind=KeptKind.RESPONSE,
        owner="a",
        request=b'{"input":"' + b"x" * 30_000 + b'"}',
        body=body("l"),
    )
    assert not store.add(large)
    assert store.response("mine", "a")
    for number in range(40):
        added = [{"role": "user", "content": f"{number}" * 300}]
        store.add_items("conv9999", "b", added)
        if not _is_there(store, "conv9999", "b"):
            break
    assert not _is_there(store, "conv9999", "b")  # it grew beyond what all others have


def _is_there(store: ResponseStore, name: str, owner: str) -> bool:
    try:
        return bool(store.conversation(name, owner))
    except RequestError:
        return False


def test_what_is_continued_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    now = objects.unix_seconds()
    store = ResponseStore(KeptBounds(seconds=100))
    keep(store, "one")
    keep(store, "other")
    monkeypatch.setattr("servers.kept.store.unix_seconds", lambda: now + 80)
    context(store, "x", previous="one")
    monkeypatch.setattr("servers.kept.store.unix_seconds", lambda: now + 150)
    assert store.response("one", "")
    refused(lambda: store.response("other", ""))
    keep(store, "later")
    assert store._rows("select count(*) from objects") == [(2,)]


def test_a_directory_survives_its_process(tmp_path: Path) -> None:
    store = ResponseStore(KeptBounds(), tmp_path / "kept")
    keep(store, "one")
    other = ResponseStore(KeptBounds(), tmp_path / "kept")
    assert other.response("one", "")
    store.close()
    other.close()
    again = ResponseStore(KeptBounds(), tmp_path / "kept")
    assert [item["type"] for item in context(again, "x", previous="one").input[:2]] == [
        "message"
    ] * 2
    again.close()
    file = tmp_path / "kept" / "responses.sqlite"
    assert file.stat().st_mode & 0o077 == 0


def test_processes_of_one_directory_keep_its_bounds_together(tmp_path: Path) -> None:
    first, second = (ResponseStore(KeptBounds(objects=64), tmp_path) for _ in range(2))
    for number in range(100):
        keep(first, f"a{number}", owner="busy")
        keep(second, f"b{number}", owner="busy")
        keep(second, f"c{number}", owner="slow") if number < 5 else None
    with closing(sqlite3.connect(tmp_path / "responses.sqlite")) as file:
        assert 62 <= file.execute("select count(*) from objects").fetchone()[0] <= 64
    for number in range(5):
        assert first.response(f"c{number}", "slow")
    assert first.response("b99", "busy")
    for number in range(90, 100):
        second.delete(f"a{number}", "busy", KeptKind.RESPONSE)
        second.delete(f"b{number}", "busy", KeptKind.RESPONSE)
    for number in range(15):
        keep(first, f"d{number}", owner="busy")
    # There was room: nothing had to go for them.
    assert first.response("a89", "busy")
    first.close()
    second.close()


@pytest.mark.parametrize(
    "opened", [lambda directory: ResponseStore(KeptBounds(), directory), BatchStore]
)
def test_workers_open_a_new_directory_at_once(
    tmp_path: Path, opened: Callable[[Path], ResponseStore | BatchStore]
) -> None:
    workers = 4
    together = threading.Barrier(workers)

    def worker(directory: Path) -> None:
        together.wait()
        opened(directory).close()

    with ThreadPoolExecutor(workers) as pool:
        for number in range(40):
            list(pool.map(worker, [tmp_path / str(number)] * workers))


def test_a_store_of_the_first_version_goes_on(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "responses.sqlite")) as file:
        file.executescript(FIRST_VERSION)
        file.execute(
            "insert into objects values (1, 'old', 'response', '', '0', '', 'completed', ?, ?, '',"
            " '', '{}', '\"Hello\"', ?, 500)",
            (objects.unix_seconds(), objects.unix_seconds(), body("old")),
        )
        file.execute("insert into outputs values ('msg_of_old', 1)")
        file.commit()
    store = ResponseStore(KeptBounds(objects=2), tmp_path)
    assert store.response("old", "")[0] == body("old")
    keep(store, "new", previous="old")
    named = {"type": "item_reference", "id": "msg_of_old"}
    assert context(store, [named], previous="new").earlier == 4
    for number in range(3):
        keep(store, f"r{number}")
    assert refused(lambda: context(store, [named])).code is Code.NOT_FOUND
    store.close()


#: The tables of version 1.
FIRST_VERSION = """
create table objects (
    number integer primary key,
    id text not null unique,
    kind text not null,
    owner text not null,
    secret text not null,
    model text not null,
    status text not null,
    created_at integer not null,
    used_at integer not null,
    previous text not null,
    conversation text not null,
    metadata text not null,
    input blob not null,
    body blob not null,
    size integer not null
);
create index objects_by_use on objects (owner, used_at);
create table outputs (id text not null, object integer not null, primary key (id, object))
    without rowid;
create table entries (
    number integer primary key,
    id text not null,
    conversation integer not null,
    body blob not null
);
create index entries_by_conversation on entries (conversation, number);
create index entries_by_id on entries (id);
create table events (object integer not null, last integer not null, text text not null,
    primary key (object, last)) without rowid;
create table owners (owner text primary key, objects integer not null, bytes integer not null)
    without rowid;
insert into owners values ('', 1, 500);
pragma user_version = 1;
"""


def test_deleted_text_is_not_left_in_the_file(tmp_path: Path) -> None:
    store = ResponseStore(KeptBounds(), tmp_path)
    keep(store, "one", given="the secret of the geese " * 50)
    store.delete("one", "", KeptKind.RESPONSE)
    store.close()
    for file in tmp_path.iterdir():
        assert b"secret of the geese" not in file.read_bytes()


def test_a_page_ends_where_it_has_many_bytes(store: ResponseStore) -> None:
    store.add_conversation("conv", "", {}, [])
    for text in "abc":
        given = [{"role": "user", "content": text * 900_000}]
        store.add_items("conv", "", given)
        request = json.dumps({"messages": given}).encode()
        chat = json.dumps({"id": f"chat_{text}", "choices": [text * 900_000]}).encode()
        store.add(KeptObject(kind=KeptKind.CHAT, owner="", request=request, body=chat))
    asked: dict[str, Any] = {"limit": 100, "ascending": True}
    after, seen = "", 0
    while True:
        [item], has_more = store.items("conv", "", after=after, **asked)
        after, seen = item["id"], seen + 1
        if not has_more:
            break
    assert seen == 3
    chats, has_more = store.chats("", model=None, metadata={}, after="chat_a", **asked)
    assert ([each["id"] for each in chats], has_more) == (["chat_b"], True)


def test_a_conversation_has_room_for_all_its_items_or_is_refused() -> None:
    store = ResponseStore(KeptBounds(size=10_000))
    large = [{"role": "user", "content": "x" * 10_000}]
    error = refused(lambda: store.add_conversation("large", "", {}, large))
    assert (error.param, "10000" in error.message) == ("items", True)
    store.add_conversation("conv", "", {}, [{"role": "user", "content": "x"}])
    assert refused(lambda: store.add_items("conv", "", large)).param == "items"
    items, _ = store.items("conv", "", after="", limit=9, ascending=True)
    assert len(items) == 1
    assert refused(lambda: store.conversation("large", "")).code is Code.NOT_FOUND
    store.close()


def test_what_is_deleted_leaves_no_rows(tmp_path: Path) -> None:
    store = ResponseStore(KeptBounds(objects=64), tmp_path)
    for number in range(80):
        keep(store, f"r{number}")
    store.add_conversation("conv", "", {}, [{"role": "user", "content": "x"}])
    store.delete("conv", "", KeptKind.CONVERSATION)
    for number in range(80):
        with suppress(RequestError):
            store.delete(f"r{number}", "", KeptKind.RESPONSE)
    store.close()
    with closing(sqlite3.connect(tmp_path / "responses.sqlite")) as file:
        for table in ("objects", "outputs", "entries", "events"):
            assert file.execute(f"select count(*) from {table}").fetchone() == (0,), table


def test_a_file_that_is_no_store_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "responses.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(ResponseStoreError, match="cannot be read"):
        ResponseStore(KeptBounds(), tmp_path)


def test_a_response_in_the_background_grows_and_ends(store: ResponseStore) -> None:
    new = KeptObject(
        kind=KeptKind.RESPONSE, owner="", request=b'{"input":"x"}', body=body("bg", status="queued")
    )
    store.add(new)
    assert "not complete" in str(refused(lambda: context(store, "x", previous="bg")))
    first = 'event: a\ndata: {"type":"a","sequence_number":0}\n\n'
    last = 'event: b\ndata: {"type":"b","sequence_number":1}\n\ndata: [DONE]\n\n'
    assert store.go_on("bg", first, body("bg", status="in_progress"))
    assert store.events("bg", "", -1) == ([first], False)
    assert store.go_on("bg", last, body("bg"))
    assert store.events("bg", "", 0) == ([last], True)
    assert store.response("bg", "") == (body("bg"), KeptStatus.COMPLETED)
    assert not store.go_on("bg", first, None)
    assert json.loads(store.cancel("bg", ""))["status"] == "completed"


def test_a_response_whose_process_has_gone_fails(
    store: ResponseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = KeptObject(
        kind=KeptKind.RESPONSE, owner="", request=b'{"input":"x"}', body=body("bg", status="queued")
    )
    store.add(new)
    later = objects.unix_seconds() + 60
    monkeypatch.setattr("servers.kept.store.unix_seconds", lambda: later)
    shown, status = store.response("bg", "")
    assert (status, json.loads(shown)["status"]) == (KeptStatus.FAILED, "failed")
    assert "stopped" in json.loads(shown)["error"]["message"]


def test_a_conversation_gets_what_its_responses_say(store: ResponseStore) -> None:
    store.add_conversation("conv", "", {"a": "b"}, [{"role": "user", "content": "Hello"}])
    new = KeptObject(
        kind=KeptKind.RESPONSE,
        owner="",
        request=b'{"input":"And?"}',
        body=body("one"),
        conversation="conv",
    )
    store.add(new)
    items, has_more = store.items("conv", "", after="", limit=2, ascending=False)
    assert (items[0]["content"], has_more) == ("Hi.", True)
    rest, has_more = store.items("conv", "", after=items[-1]["id"], limit=9, ascending=False)
    assert (len(rest), has_more) == (1, False)
    store.delete_item("conv", "", items[0]["id"])
    assert context(store, "x", conversation="conv").earlier == 2
    assert store.conversation("conv", "")["metadata"] == {"a": "b"}
    store.delete("conv", "", KeptKind.CONVERSATION)
    assert store._rows("select count(*) from entries") == [(0,)]
    store.add(
        KeptObject(
            kind=KeptKind.RESPONSE,
            owner="",
            request=b'{"input":"x"}',
            body=body("2"),
            conversation="conv",
        )
    )
    assert store.response("2", "")


def test_chats_are_found_by_model_and_metadata(store: ResponseStore) -> None:
    for number in range(5):
        request = {
            "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
            "metadata": {"odd": str(number % 2), 'q"': "'"},
        }
        answer = {"id": f"c{number}", "object": "chat.completion", "model": f"m{number % 2}"}
        store.add(
            KeptObject(
                kind=KeptKind.CHAT,
                owner="",
                request=json.dumps(request).encode(),
                body=json.dumps(answer).encode(),
            )
        )

    def listed(**given: Any) -> tuple[list[str], bool]:
        asked = {"model": None, "metadata": {}, "after": "", "limit": 9, "ascending": True, **given}
        chats, has_more = store.chats("", **asked)
        return [each["id"] for each in chats], has_more

    assert listed(limit=2) == (["c0", "c1"], True)
    assert listed(after="c1", ascending=False) == (["c0"], False)
    assert listed(model="m1")[0] == ["c1", "c3"]
    assert listed(metadata={"odd": "0"})[0] == ["c0", "c2", "c4"]
    assert listed(metadata={'q"': "'"}, limit=1) == (["c0"], True)
    assert listed(metadata={"none": "0"})[0] == []
    [message] = store.chat_messages("c0", "")
    assert (message["id"], message["content"], len(message["content_parts"])) == ("c0-0", "x", 1)
    store.set_metadata("c0", "", KeptKind.CHAT, {"new": "1"})
    assert store.chat("c0", "")["metadata"] == {"new": "1"}


def test_ids_of_items_do_not_change_and_lie_in_their_request() -> None:
    given = ["no item", {"role": "user", "content": "x"}, {"type": "reasoning", "summary": []}]
    key = key_of(255, "f" * 16)
    ids = [item["id"] for item in items_of(given, key)]
    assert ids == ["msg_00000000ffffffffffffffffff000001", "rs_00000000ffffffffffffffffff000002"]
    assert set(map(place_of, ids)) == {(255, "f" * 16)}
    assert place_of("msg_1") is None


def test_chunks_become_the_completion_that_a_whole_answer_is() -> None:
    def chunk(delta: dict[str, Any], finish: str | None = None, index: int = 0) -> str:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"

    call = {
        "index": 0,
        "id": "call",
        "type": "function",
        "function": {"name": "f", "arguments": ""},
    }
    events = [
        ": ping\n\n",
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "Hm", "reasoning": "Hm"}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}, index=1),
        chunk({"content": "lo"}),
        chunk({"tool_calls": [call]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}),
        chunk({}, "tool_calls"),
        chunk({}, "stop", index=1),
        "data: [DONE]\n\n",
    ]
    made = json.loads(completion_of("".join(events).encode()) or b"")
    first, second = made["choices"]
    assert made["object"] == "chat.completion"
    assert first["finish_reason"] == "tool_calls"
    assert first["message"] == {
        "role": "assistant",
        "content": "Hello",
        "reasoning_content": "Hm",
        "reasoning": "Hm",
        "refusal": None,
        "tool_calls": [
            {"id": "call", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ],
    }
    assert second["message"]["content"] == "lo"
    assert completion_of(b"data: [DONE]\n\n") is None
