"""Identity of clients, by which they take turns."""

from __future__ import annotations

from calculators.kit.requests.client_identity import ClientIdentity
from servers.access import Access, ApiKeys, identity_of_peer

OPEN = Access()
HOME = identity_of_peer("192.0.2.1", "5")
LOCKED = Access(ApiKeys.of_text("first\nsecond", "here"))


def test_without_keys_a_client_is_its_address_and_headers_change_nothing() -> None:
    one = OPEN.client(HOME, "Bearer first", "second")
    assert one == OPEN.client(HOME, None, None)
    other = OPEN.client(identity_of_peer("192.0.2.1", "6"), None, None)
    assert one.name == other.name
    assert one.connection != other.connection
    assert OPEN.client(identity_of_peer("192.0.2.2", "5"), None, None).name != one.name


def test_an_ipv6_client_is_its_network() -> None:
    names = [
        OPEN.client(identity_of_peer(each, "5"), None, None).name
        for each in ("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1", "fe80::1%eth0")
    ]
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_with_keys_a_client_is_its_key_from_any_address() -> None:
    one = LOCKED.client(HOME, "Bearer first", None)
    assert LOCKED.client(identity_of_peer("192.0.2.9", "5"), None, "first").name == one.name
    assert LOCKED.client(HOME, "Bearer second", None).name != one.name
    assert LOCKED.client(HOME, "Bearer wrong", None).name == "192.0.2.1"
    assert "first" not in repr(one)


def test_a_peer_without_an_address_is_unknown() -> None:
    assert OPEN.client(identity_of_peer("", ""), None, None) == ClientIdentity("")
