"""Which replica gets a request: by what is in flight, and by what each has seen before."""

from __future__ import annotations

import random

from servers.replicas.routing_table import RoutedCall, RoutingTable, blocks_of

REPLICAS = ("a", "b", "c", "d")


def route(
    table: RoutingTable, key: str, prompt: str = "", replicas: tuple[str, ...] = REPLICAS
) -> str:
    call = RoutedCall(blocks_of(prompt), tokens=len(prompt) / 4 + 128)
    table.begin(key, call)
    offers = table.offers(key, replicas, pinned=False)
    assert offers[:1] == ([call.replica] if call.replica else [])
    return call.replica


def test_requests_without_a_common_beginning_are_spread() -> None:
    table = RoutingTable()
    taken = [route(table, str(number)) for number in range(8)]
    assert sorted(taken) == sorted(2 * REPLICAS)


def test_the_next_turn_of_a_conversation_goes_where_the_last_one_was() -> None:
    table = RoutingTable()
    source = random.Random(1)
    texts = {name: "".join(source.choices("abcdefgh ", k=2000)) for name in ("x", "y", "z")}
    homes = {}
    for name, text in texts.items():
        homes[name] = route(table, name, text)
        table.end(name)
    for name, text in texts.items():
        for turn in range(3):
            text += "".join(source.choices("abcdefgh ", k=500))
            key = f"{name}{turn}"
            assert route(table, key, text) == homes[name]
            table.end(key)


def test_a_common_system_prompt_does_not_send_all_to_one_replica() -> None:
    table = RoutingTable()
    source = random.Random(2)
    system = "".join(source.choices("abcdefgh ", k=4000))
    taken = [
        route(table, str(number), system + "".join(source.choices("abcdefgh ", k=400)))
        for number in range(40)
    ]
    assert max(taken.count(each) for each in REPLICAS) <= 20
    assert set(taken) == set(REPLICAS)


def test_an_overloaded_replica_loses_its_conversations() -> None:
    table = RoutingTable()
    text = "".join(random.Random(3).choices("abcdefgh ", k=2000))
    home = route(table, "first", text)
    table.end("first")
    others = tuple(each for each in REPLICAS if each != home)
    for number in range(60):
        route(table, str(number), replicas=(home,))
    assert route(table, "next", text) in others


def test_full_replicas_are_not_offered() -> None:
    table = RoutingTable(limit=2)
    taken = [route(table, str(number)) for number in range(9)]
    assert sorted(taken[:8]) == sorted(2 * REPLICAS)
    assert taken[8] == ""
    assert table.waiting == 1
    table.end("0")
    assert table.offers("8", REPLICAS, pinned=False) == [taken[0]]


def test_parts_of_a_request_go_to_its_replica() -> None:
    table = RoutingTable()
    home = route(table, "x")
    assert table.offers("x", REPLICAS, pinned=True) == [home]
    others = tuple(each for each in REPLICAS if each != home)
    assert table.offers("x", others, pinned=True)[0] in others  # it says that it knows no request


def test_a_replica_that_lost_a_request_is_avoided() -> None:
    table = RoutingTable()
    call = RoutedCall()
    table.begin("x", call)
    for _ in REPLICAS[1:]:
        table.offers("x", REPLICAS, pinned=False)
        assert call.replica not in call.avoided
        call.avoided.add(call.replica)
    assert len(call.avoided) == 3
    table.offers("x", ("a",), pinned=False)
    assert call.replica == "a"  # better than none


def test_a_request_counts_where_it_was_sent() -> None:
    table = RoutingTable(limit=1)
    chosen = route(table, "x", replicas=("a", "b"))
    other = "b" if chosen == "a" else "a"
    table.note_sent("x", other)
    assert route(table, "y", replicas=("a", "b")) == chosen
    table.end("x")
    table.end("y")
    table.note_sent("y", other)  # Ray says so after a short request is over
    assert {route(table, key, replicas=("a", "b")) for key in "pq"} == {"a", "b"}


def test_unknown_calls_get_any_replica() -> None:
    assert RoutingTable().offers("", REPLICAS, pinned=True) == ["a"]


def test_blocks_depend_on_all_before_them() -> None:
    one, two = blocks_of("a" * 128), blocks_of("b" * 64 + "a" * 64)
    assert len(one) == len(two) == 2
    assert one[1] != two[1]
    assert blocks_of("a" * 150)[:2] == one
    assert blocks_of("short") == ()
