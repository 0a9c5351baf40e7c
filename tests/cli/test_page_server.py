"""The server of the page: what it answers, whom it refuses, and what a browser may do with the page."""

import hashlib
import json
import re
import socket
import sys
from base64 import b64encode
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import httpx
import pytest

from function.cli.options import CliError, Code
from function.cli.page_server import Page, build_policy, read_page, serve


@pytest.fixture(scope="module")
def page() -> Page:
    """A page with data."""
    built = Page(read_page())
    built.publish({"environments": []})
    return built


@pytest.fixture(scope="module")
def client(page: Page) -> Iterator[httpx.Client]:
    """A client of a server of the page."""
    with serve(page, 0) as url, httpx.Client(base_url=url, trust_env=False) as opened:
        yield opened


def test_listens_on_loopback_only(client: httpx.Client) -> None:
    assert client.base_url.host == "127.0.0.1"


def test_sends_the_page(client: httpx.Client) -> None:
    answer = client.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.text == read_page()


def test_tells_browsers_to_load_nothing_else(client: httpx.Client) -> None:
    for path in ("/", "/data.json"):
        headers = client.get(path).headers
        policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["connect-src"] == "'self'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_policy_admits_only_the_script_and_the_style_of_the_page() -> None:
    def digest(content: str) -> str:
        return b64encode(hashlib.sha256(content.encode()).digest()).decode()

    policy = build_policy("<style>a{}</style><script>one()</script>")
    assert f"script-src 'sha256-{digest('one()')}'; style-src 'sha256-{digest('a{}')}'" in policy
    assert "script-src 'none'; style-src 'none'" in build_policy("<p>")


def test_page_loads_nothing_from_elsewhere_and_writes_no_markup() -> None:
    html = read_page()
    assert re.findall(r"(?:https?:)?//[a-z]", html.replace("  // ", "").replace("\n// ", "")) == []
    assert re.findall(r"\b(?:src|srcset|action)=|@import|url\(", html) == []
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", html) == []
    assert re.findall(r"\son[a-z]+=|\sstyle=", html) == [], "the policy would refuse these"


def test_sends_data_only_when_it_has_changed(client: httpx.Client, page: Page) -> None:
    page.requested.clear()
    first = client.get("/data.json")
    assert page.requested.is_set(), "so that it is read again"
    assert first.json() == {"error": "", "snapshot": {"environments": []}}
    read_at = parsedate_to_datetime(first.headers["last-modified"])
    assert read_at == page.read_at.replace(microsecond=0)
    unchanged = {"If-None-Match": first.headers["etag"]}
    second = client.get("/data.json", headers=unchanged)
    assert (second.status_code, second.content) == (304, b"")
    page.publish_error('cannot be read: "x"')
    third = client.get("/data.json", headers=unchanged)
    assert third.json() == {"error": 'cannot be read: "x"', "snapshot": {"environments": []}}
    page.publish({"environments": []})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:9999", "LOCALHOST:80"])
def test_answers_this_machine_also_through_a_tunnel(host: str, client: httpx.Client) -> None:
    assert client.get("/data.json", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/data.json"])
@pytest.mark.parametrize("host", ["example.com", "127.0.0.1.example.com", "localhost.example.com:80", "", "[::2]", "["])
def test_refuses_other_hosts(host: str, path: str, client: httpx.Client) -> None:
    answer = client.get(path, headers={"Host": host})
    assert answer.status_code == 421
    assert "environments" not in answer.text
    assert "<script" not in answer.text


CROSS = {"Sec-Fetch-Site": "cross-site"}


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/data.json", {"Origin": "https://example.com"}),
        ("/data.json", {"Origin": "null"}),
        ("/data.json", {"Origin": "http://127.0.0.1:1"}),
        ("/data.json", CROSS),
        ("/data.json", {"Sec-Fetch-Site": "same-site"}),
        ("/data.json", CROSS | {"Sec-Fetch-Dest": "document"}),
        ("/", CROSS | {"Sec-Fetch-Dest": "iframe"}),
        ("/", {"Origin": "https://example.com"}),
    ],
)
def test_refuses_other_sites(path: str, headers: dict[str, str], client: httpx.Client) -> None:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 403
    assert answer.text.startswith("refused: ")


def test_answers_its_own_page_and_links_to_it(client: httpx.Client) -> None:
    own = {"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    assert client.get("/data.json", headers=own).status_code == 200
    assert client.get("/", headers=CROSS | {"Sec-Fetch-Dest": "document"}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_changes_nothing(method: str, client: httpx.Client) -> None:
    assert client.request(method, "/data.json").status_code == 405


def test_has_no_other_pages(client: httpx.Client) -> None:
    for path in ("/ui.html", "/data.json/", "/../../etc/passwd", "/docs"):
        assert client.get(path, follow_redirects=False).status_code in (307, 404), path


def test_names_a_port_that_is_in_use(page: Page) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CliError) as raised:
            serve(page, port).__enter__()
    assert raised.value.message.startswith(f"cannot listen on 127.0.0.1:{port}: ")
    assert raised.value.message.endswith("Choose another port with --port, or 0 for any")
    assert raised.value.code is Code.USAGE


def test_names_the_extra_that_is_missing(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(CliError, match=r"this needs uvicorn: pip install 'function-modelplane\[ui\]'"), serve(page, 0):
        pass


def test_data_is_json_whatever_the_message() -> None:
    page = Page("")
    page.publish({"a": '</script>"\u2028'})
    page.publish_error("line\nline")
    assert json.loads(page.data) == {"error": "line\nline", "snapshot": {"a": '</script>"\u2028'}}


def test_data_is_as_old_as_it_was_read() -> None:
    page = Page("")
    page.publish({})
    first = page.read_at
    page.confirm()
    second = page.read_at
    assert second > first
    page.publish_error("cannot be read")
    page.confirm()
    assert page.read_at == second
