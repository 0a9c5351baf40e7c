"""Origins of URLs."""

import pytest

from function.kube.urls import AddressType, Origin, is_hostname, parse_origin


@pytest.mark.parametrize(
    ("url", "origin", "kind", "shown"),
    [
        ("http://10.0.0.1", Origin("http", "10.0.0.1", 80), AddressType.IPV4, "http://10.0.0.1"),
        ("https://a.example.com/x/y?z", Origin("https", "a.example.com", 443), AddressType.FQDN, "https://a.example.com"),
        ("http://A.example.com:8080", Origin("http", "a.example.com", 8080), AddressType.FQDN, "http://a.example.com:8080"),
        ("https://[fd00::1]:8443", Origin("https", "fd00::1", 8443), AddressType.IPV6, "https://[fd00::1]:8443"),
    ],
)  # fmt: skip
def test_parses_scheme_host_and_port(url: str, origin: Origin, kind: AddressType, shown: str) -> None:
    assert parse_origin(url) == origin
    assert origin.address_type is kind
    assert str(origin) == shown


@pytest.mark.parametrize(
    "url",
    ["", "ftp://a", "http://", "http://a:0", "http://a:99999", "http://[fd00", "http://u@a", "http://a_b", "//a", "http://1.2.3.999"],
)  # fmt: skip
def test_refuses_what_is_no_origin(url: str) -> None:
    assert parse_origin(url) is None


@pytest.mark.parametrize("host", ["a", "a-b.c1"])
def test_knows_host_names(host: str) -> None:
    assert is_hostname(host)


@pytest.mark.parametrize("host", ["1.2.3.4", "-a", "a..b", "A", "a" * 64, ".".join(["a" * 60] * 5)])
def test_knows_what_is_no_host_name(host: str) -> None:
    assert not is_hostname(host)
