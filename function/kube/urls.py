"""The origin of a URL: scheme, host and port, and the kind of address that a host is.

Hosts are those of RFC 1123 in lower case, or IP addresses; an IPv6 address is in brackets only within a URL.
"""

import ipaddress
import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


class AddressType(StrEnum):
    """The address type of an EndpointSlice."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"
    FQDN = "FQDN"


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    scheme: str  # http or https
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if self.address_type is AddressType.IPV6 else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")

    @property
    def address_type(self) -> AddressType:
        try:
            version = ipaddress.ip_address(self.host).version
        except ValueError:
            return AddressType.FQDN
        return AddressType.IPV4 if version == 4 else AddressType.IPV6


def parse_origin(url: str) -> Origin | None:
    """Returns the origin of an HTTP URL; None if the text is not an HTTP URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or parts.username is not None or port == 0:
        return None
    origin = Origin(parts.scheme, host, port or _PORTS[parts.scheme])
    return origin if origin.address_type is not AddressType.FQDN or is_hostname(host) else None


def is_hostname(host: str) -> bool:
    """Tells whether a host is a name; an IPv4 address is not a name."""
    looks_like_ip = host.rpartition(".")[2].isdigit()
    return len(host) <= 253 and not looks_like_ip and _NAME.fullmatch(host) is not None
