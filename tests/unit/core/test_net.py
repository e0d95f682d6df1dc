"""Which addresses are public, how URLs are read, and what a slow name server costs."""

from __future__ import annotations

import pickle
import threading
from ipaddress import IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.net.guard import AddressGuard, AddressRefused, HostUnknown, guard_of, is_public
from penstock.core.net.url import parse_url

PUBLIC = ["8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
INNER = [
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),  # noqa: S104 - called, not bound to
    *("192.0.0.1", "198.18.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fd00::1", "ff02::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"),
    *("2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "3fff::1", "100::1", "5f00::1"),
    # Taken as public by version 0.1 (L6).
    *("fec0::1", "fec0:0:0:ffff::1", "::127.0.0.1", "::7f00:1", "64:ff9b:1::7f00:1", "64:ff9b:1::808:808"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert AddressGuard().is_allowed(address)
    assert AddressGuard().addresses(address) == [address]


@pytest.mark.parametrize("address", INNER)
def test_every_address_that_is_not_global_is_refused(address: str) -> None:
    assert not AddressGuard().is_allowed(address)
    with pytest.raises(AddressRefused, match="is not a public address"):
        AddressGuard().check_host(address)


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_outside_of_global_unicast_is_public_only_by_the_ipv4_address_in_it(ip: IPv6Address) -> None:
    if is_public(ip) and int(ip) >> 125 != 1:
        inner = ip.ipv4_mapped or ip_address(int(ip) & 0xFFFFFFFF)
        assert inner.is_global


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "[::1]",
        "127.1",
        "0x7f000001",
        "0X7F.1",
        "2130706433",
        "0177.0.0.1",
        "",
        "0",
        "127.0.0.1.",
        "1.2.3.0x4",
    ],
)
def test_other_spellings_of_this_machine_are_refused_without_a_lookup(host: str) -> None:
    def unexpected(_: str) -> list[str]:
        raise AssertionError("looked up")

    guard = AddressGuard(lookup=unexpected)
    for check in (guard.check_literal, guard.check_host):
        with pytest.raises(AddressRefused):
            check(host)


def test_one_bad_answer_refuses_a_name_and_settings_open_networks_and_names() -> None:
    answers = {"good.example": ["93.184.216.34"], "mixed.example": ["93.184.216.34", "10.0.0.1"]}
    assert AddressGuard(lookup=answers.__getitem__).addresses("good.example") == ["93.184.216.34"]
    with pytest.raises(AddressRefused, match=r"mixed.example \(10.0.0.1\).*api.networks") as refused:
        AddressGuard(lookup=answers.__getitem__).addresses("mixed.example")
    assert refused.value.code == "address-refused"
    for networks in (("10.0.0.0/8",), ("Mixed.example.",)):
        opened = AddressGuard(networks, lookup=answers.__getitem__)
        assert opened.addresses("mixed.example") == answers["mixed.example"]


def test_brokers_are_open_at_their_ports_only() -> None:
    guard = AddressGuard(brokers=frozenset({("127.0.0.1", 9093)}))
    assert guard.addresses("127.0.0.1", 9093) == ["127.0.0.1"]
    for port in (22, 9092, None):
        with pytest.raises(AddressRefused):
            guard.check_host("127.0.0.1", port)


def test_a_guard_and_its_refusal_survive_pickling() -> None:
    guard = pickle.loads(pickle.dumps(AddressGuard(("10.0.0.0/8",))))  # noqa: S301 - made here
    assert guard.is_allowed("10.1.1.1")
    refused = pickle.loads(pickle.dumps(AddressRefused("a", "10.0.0.1")))  # noqa: S301 - made here
    assert isinstance(refused, ValueError)
    assert refused.received == "a"


def test_what_allow_private_means() -> None:
    assert guard_of(True).is_allowed("127.0.0.1")
    assert not guard_of(False).is_allowed("127.0.0.1")
    assert guard_of(["127.0.0.0/8"]).is_allowed("127.0.0.1")
    assert not guard_of(["127.0.0.0/8"]).is_allowed("10.0.0.1")


def test_a_name_server_that_does_not_answer_costs_a_bounded_time_and_number_of_threads() -> None:
    over = threading.Event()
    before = threading.active_count()

    def silent(_: str) -> list[str]:
        over.wait(60)
        return ["93.184.216.34"]

    guard = AddressGuard(lookup=silent).within(0.5)
    try:
        for number in range(300):
            with pytest.raises(HostUnknown):
                guard.check_host(f"slow-{number}.example")
        assert threading.active_count() - before <= 16
    finally:
        over.set()


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("https://example.org/hook?a=b#c", "example.org"),
        ("HTTP://EXAMPLE.org:8080", "example.org"),
        ("http://[::1]:80/", "::1"),
        ("http://kafka_1.internal/", "kafka_1.internal"),
        ("http://bücher.example/", "xn--bcher-kva.example"),
        ("http://\uff11\uff12\uff17.0.0.1/", "127.0.0.1"),
        ("http://a#@b/", "a"),
    ],
)
def test_a_url_has_the_host_that_the_sending_library_contacts(text: str, host: str) -> None:
    assert parse_url(text).raw_host == host


@pytest.mark.parametrize(
    "text",
    [
        *("", "example.org/hook", "ftp://example.org/", "file:///etc/passwd", "http:///x", "http:example.org"),
        *("http://1.1.1.1,x@127.0.0.1/", "http://u:p@example.org/", "http://@example.org/", "http://a@b@c/"),
        *("http://a b/", "http://a/ b", "http://a\t/", "http://a\n/", "http://a/\x00", " http://a/", "http://a/\u2028"),
        *(
            "http://a\\@b/",
            "http:\\\\a/",
            "http://a,b/",
            "http://a;b/",
            "http://a%2eb/",
            "http://[v1.x]/",
            "http://[a]/",
        ),
        *("http://127.1/", "http://0x7f.1/", "http://2130706433/", "http://a:99999/", "http://a:b/"),
        *("http://" + "a" * 300, "http://a/" + "b" * 5_000),
    ],
)
def test_urls_that_libraries_may_read_differently_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"wanted|host|IPv") as refused:
        parse_url(text)
    assert "u:p" not in str(refused.value)


@given(st.text(max_size=60))
def test_no_text_makes_the_parser_fail_otherwise(text: str) -> None:
    for url in (text, f"http://{text}"):
        try:
            found = parse_url(url)
        except ValueError:
            continue
        assert found.raw_host
        assert found.raw_user is None
