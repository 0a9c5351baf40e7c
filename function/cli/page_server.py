"""Serves the page of `modelplane ui` on the loopback interface: one HTML file, and its data as JSON.

Any web site that a browser of this machine visits can send requests here. So a request with the host name of another
site (DNS rebinding) or from another origin is refused, and the page may neither load anything else nor be framed.
"""

import hashlib
import json
import re
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING, Any

from function.cli.options import CliError, Code, Form, import_extra
from function.cli.tables import format_data

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOST = "127.0.0.1"
# With any port: it may be that of a tunnel.
_HOSTS = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?", re.ASCII | re.IGNORECASE)
_EXTRA = "ui"
_STOP_SECONDS = 5
_BLOCK = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(slots=True)
class Page:
    """What the server answers. The command that reads the data waits until a browser asks for it."""

    html: str
    data: bytes = b"{}"
    read_at: datetime = datetime.min.replace(tzinfo=UTC)
    requested: threading.Event = field(default_factory=threading.Event)
    _snapshot: str = "null"
    _error: str = ""

    def publish(self, snapshot: object) -> None:
        """Replaces the data."""
        self._snapshot = format_data(Form.JSON, snapshot)
        self.read_at = datetime.now(UTC)
        self._write("")

    def confirm(self) -> None:
        """Says that the data is still as it was published; after an error it stays as old as it is."""
        if not self._error:
            self.read_at = datetime.now(UTC)

    def publish_error(self, message: str) -> None:
        """Says why the data could not be read again; the data stays as it was last read."""
        self._write(message)

    def _write(self, error: str) -> None:
        self._error = error
        self.data = f'{{"error": {json.dumps(error)}, "snapshot": {self._snapshot}}}'.encode()


def read_page() -> str:
    return resources.files("function.cli").joinpath("ui.html").read_text("utf-8")


def build_policy(html: str) -> str:
    """Returns the Content-Security-Policy: only the script and the style within the page, and data from here."""
    hashes = {"script": "", "style": ""}
    for kind, content in _BLOCK.findall(html):
        hashes[kind] += f" 'sha256-{b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
    own = "; ".join(f"{kind}-src{sources or ' ' + chr(39) + 'none' + chr(39)}" for kind, sources in hashes.items())
    rest = "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return f"default-src 'none'; {own}; {rest}"


def find_refusal(request: "Request") -> tuple[HTTPStatus, str] | None:
    """Returns why a request is refused: its Host is not this machine, or another site has sent it."""
    host = request.headers.get("host", "")
    if not _HOSTS.fullmatch(host):
        return HTTPStatus.MISDIRECTED_REQUEST, f"Host must be {HOST} or localhost"
    if request.headers.get("origin", f"http://{host}") != f"http://{host}":
        return HTTPStatus.FORBIDDEN, "Origin must be this page"
    site = request.headers.get("sec-fetch-site", "none")
    # A link on another site may open the page, but nothing may load it, or its data, into that site.
    is_visit = request.url.path == "/" and request.headers.get("sec-fetch-dest") == "document"
    if site not in ("none", "same-origin") and not is_visit:
        return HTTPStatus.FORBIDDEN, "another site has sent this request"
    return None


def build_app(page: Page) -> "Starlette":
    """Returns the application: the page at `/` and its data at `/data.json`."""
    starlette = import_extra("starlette.applications", _EXTRA)
    routing = import_extra("starlette.routing", _EXTRA)
    responses = import_extra("starlette.responses", _EXTRA)
    headers = {**_HEADERS, "Content-Security-Policy": build_policy(page.html)}

    def answer(request: "Request", response: Any, content: object, **more: str) -> "Response":
        if refusal := find_refusal(request):
            status, message = refusal
            response, content, more = responses.PlainTextResponse, f"refused: {message}\n", {}
        else:
            status = HTTPStatus.OK
        built: Response = response(content, status, {**headers, **more})
        return built

    async def show_page(request: "Request") -> "Response":
        return answer(request, responses.HTMLResponse, page.html)

    async def send_data(request: "Request") -> "Response":
        data = page.data
        tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        more = {"ETag": tag, "Last-Modified": format_datetime(page.read_at, usegmt=True)}
        response = answer(request, responses.Response, data, **{"Content-Type": "application/json", **more})
        if response.status_code == HTTPStatus.OK:
            page.requested.set()
            if request.headers.get("if-none-match") == tag:
                response = responses.Response(status_code=HTTPStatus.NOT_MODIFIED, headers={**headers, **more})
        return response

    routes = [routing.Route("/", show_page), routing.Route("/data.json", send_data)]
    app: Starlette = starlette.Starlette(routes=routes)
    return app


@contextmanager
def serve(page: Page, port: int) -> Iterator[str]:
    """Serves the page in a thread, and returns its URL."""
    uvicorn = import_extra("uvicorn", _EXTRA)
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        message = f"cannot listen on {HOST}:{port}: {error.strerror}. Choose another port with --port, or 0 for any"
        raise CliError(message, Code.USAGE) from error
    config = uvicorn.Config(
        build_app(page),
        http="h11",
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(_STOP_SECONDS)
        listener.close()
