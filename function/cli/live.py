"""A live control plane, read through the caller's own kubeconfig; `cache` also writes a few objects.

kr8s loads and renews the credentials; paths are built here, since every kind is known. Whatever prevents an answer is
reported in one line with what to do.
"""

import asyncio
import base64
import functools
import json
import os
import tempfile
import time
import warnings
from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml

from function.cli.options import CliError, Code, Sources, import_extra
from function.cli.store import Ref, normalize_json
from function.composers import COMPOSERS
from function.kube.manifests import Manifest, listing
from function.kube.names import VERSION
from function.remote.composed_kinds import OBJECT_VERSION

T = TypeVar("T")

API_VERSIONS = {
    **dict.fromkeys(COMPOSERS, VERSION),
    "Object": OBJECT_VERSION,
    "Composition": "apiextensions.crossplane.io/v1",
    "EnvironmentConfig": "apiextensions.crossplane.io/v1beta1",
}
_ANSWER_SECONDS = 30
POLL_SECONDS = 2


class Cluster:
    """One control plane. Every method raises CliError where there is no answer."""

    def __init__(self, sources: Sources, runner: asyncio.Runner) -> None:
        self._sources = sources
        self._runner = runner
        self._api = self._connect()

    def close(self) -> None:
        session = self._api._session  # noqa: SLF001  # kr8s has no other way to close it
        if session is not None:
            self._runner.run(session.aclose())

    @property
    def namespace(self) -> str:
        """The namespace of --namespace, else the context's."""
        if self._sources.namespace:
            return self._sources.namespace
        auth = self._api.auth
        context = auth.kubeconfig.get_context(auth.active_context) if auth.active_context else {}
        return str(context.get("namespace") or "default")

    @property
    def context(self) -> str:
        """The context of --context, else the current one; within a pod there is none."""
        return str(self._api.auth.active_context or "in-cluster")

    def find_expiry(self) -> datetime | None:
        """Returns when the token or the client certificate of the kubeconfig expires; None: never, or it is not known.

        Credentials of a program (exec) are renewed by it.
        """
        auth = self._api.auth
        if "exec" in auth._user:  # noqa: SLF001  # kr8s tells the user's entry nowhere else
            return None
        times = [find_token_expiry(auth.token or "")]
        if auth.client_cert_file:
            x509 = import_extra("cryptography.x509")  # of kr8s
            certificate = x509.load_pem_x509_certificate(Path(auth.client_cert_file).read_bytes())
            times.append(certificate.not_valid_after_utc)
        return min(filter(None, times), default=None)

    def objects(self, kinds: Iterable[str], namespace: str = "") -> list[Manifest]:
        """Returns every object of some kinds, of all namespaces unless one is named."""
        objects: list[Manifest] = []
        # One after the other: kr8s renews its session at a 403, and requests under way then never end.
        for kind in kinds:
            try:
                answer = self._run(self._call("GET", Ref(kind, namespace, "")), f"list {kind}s")
            except CliError as error:
                if kind == "ModelService" and error.code is Code.NOT_FOUND:
                    continue  # the Configuration is of an earlier release
                raise
            # Items of a list come without their kind.
            head: Manifest = {"apiVersion": API_VERSIONS[kind], "kind": kind}
            objects += ({**head, **item} for item in listing(answer, "items"))
        return objects

    def get(self, ref: Ref) -> Manifest | None:
        """Returns an object; None where it does not exist."""
        return self._call_existing("GET", ref, "read")

    def delete(self, ref: Ref) -> None:
        """Deletes an object, if it exists."""
        self._call_existing("DELETE", ref, "delete")

    def _call_existing(self, method: str, ref: Ref, verb: str) -> Manifest | None:
        try:
            return self._run(self._call(method, ref), f"{verb} {ref}")
        except CliError as error:
            if error.code is Code.NOT_FOUND:
                return None
            raise

    def apply(self, manifest: Manifest) -> None:
        """Creates or changes an object by server-side apply; fields of another field manager are refused."""
        ref = Ref.of(manifest)
        self._run(self._call("PATCH", ref, manifest), f"write {ref}")

    def fetch(self, path: str, body: Manifest | None = None) -> Manifest | None:
        """Returns the answer to a GET, or to a POST of `body`; empty where nothing exists, None where it is forbidden.

        Raises:
            CliError: The caller is not authenticated, or there is no answer.
        """

        async def work() -> tuple[int, Manifest]:
            method = "GET" if body is None else "POST"
            head, _, tail = path.rpartition("/")
            base, url = (head, tail) if head else (path, "")
            # Without kr8s's own errors: at each 403 it would try three times more.
            call = self._api.call_api(method, version="", base=base, url=url, raise_for_status=False, json=body)
            async with call as response:
                return response.status_code, _read_object(response) if response.is_success else {}

        status, content = self._run(work(), f"read {path}")
        match status:
            case HTTPStatus.FORBIDDEN:
                return None
            case HTTPStatus.OK | HTTPStatus.CREATED | HTTPStatus.NOT_FOUND:
                return content
            case _:
                raise _refuse(f"read {path}", status, HTTPStatus(status).phrase)

    def _connect(self) -> Any:
        kr8s = import_extra("kr8s.asyncio")  # a second of start-up that commands on files do without

        async def work() -> Any:
            with warnings.catch_warnings():
                # About versions of Kubernetes that the library was not tested with.
                warnings.simplefilter("ignore")
                api = await kr8s.api(kubeconfig=self._sources.kubeconfig, context=self._sources.context)
            api.timeout = _ANSWER_SECONDS
            return api

        return self._run(work(), "connect")

    async def _call(self, method: str, ref: Ref, body: Manifest | None = None) -> Manifest:
        """Calls the API for an object, for all of its kind where it has no name."""
        call = self._api.call_api(
            method,
            version=API_VERSIONS[ref.kind],
            namespace=Ref.resolve(ref.kind, ref.namespace, "").namespace or None,
            url=f"{ref.kind.lower()}s/{ref.name}".rstrip("/"),
            json=body,
            headers={"Content-Type": "application/apply-patch+yaml"} if body else None,
            params={"fieldManager": "kubectl-modelplane"} if body else None,
        )
        async with call as response:
            return _read_object(response)

    def _run(self, work: Coroutine[object, object, T], what: str) -> T:
        httpx = import_extra("httpx")
        kr8s = import_extra("kr8s")
        try:
            return self._runner.run(asyncio.wait_for(work, _ANSWER_SECONDS))
        except kr8s.ServerError as error:
            # Not `if error.response`: a response with an error's status is false.
            status = 0 if error.response is None else error.response.status_code
            raise _refuse(what, status, str(error)) from error
        except (TimeoutError, kr8s.APITimeoutError, httpx.HTTPError, OSError) as error:
            why = f" ({error})" if str(error) else f" within {_ANSWER_SECONDS} seconds"
            message = f"cannot {what}: the control plane does not answer{why}. Check --context and your network"
            raise CliError(message, Code.UNREACHABLE) from error
        except (ValueError, KeyError, IndexError, TypeError, yaml.YAMLError) as error:
            # The system's separator joins several files, as for kubectl.
            files = self._sources.kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
            context = f"context {self._sources.context}" if self._sources.context else "current context"
            why = f" ({error})" if isinstance(error, ValueError) else ""  # others name kr8s's own variables
            lack = f"the kubeconfig {files} has no usable {context}{why}"
            if not any(Path(file).is_file() for file in files.split(os.pathsep)):
                lack = f"there is no kubeconfig {files}"
            parameters = click.get_current_context().command.params
            takes_files = any(parameter.name == "files" for parameter in parameters)
            remedy = f"Give --kubeconfig or --context{', or files with -f' if takes_files else ''}"
            message = f"cannot {what}: {lack}. {remedy}"
            raise CliError(message, Code.UNREACHABLE) from error


@functools.lru_cache(maxsize=1)  # --watch reads again over the same connection
def connect(sources: Sources) -> Cluster:
    """Returns the control plane; the connection ends with the command."""
    command = click.get_current_context().find_root()
    runner = command.with_resource(asyncio.Runner())
    # kr8s leaves the client's key in the temporary folder; this one is removed with the connection.
    command.call_on_close(functools.partial(setattr, tempfile, "tempdir", tempfile.tempdir))
    tempfile.tempdir = command.with_resource(tempfile.TemporaryDirectory())
    cluster = Cluster(sources, runner)
    command.call_on_close(cluster.close)
    command.call_on_close(connect.cache_clear)
    return cluster


def pause(deadline: float, message: str) -> None:
    """Waits before a command looks again; fails with the message after the deadline, of the monotonic clock."""
    if time.monotonic() > deadline:
        raise CliError(message, Code.REFUSED)
    time.sleep(POLL_SECONDS)


def find_token_expiry(token: str) -> datetime | None:
    """Returns when a JSON web token expires; None if it never does, or is no such token."""
    try:
        _, payload, _ = token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return datetime.fromtimestamp(int(claims["exp"]), UTC)
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        return None


def _read_object(response: Any) -> Manifest:
    content = normalize_json(response.json())
    return content if isinstance(content, dict) else {}


def _refuse(what: str, status: int, message: str) -> CliError:
    match status:
        case 401:
            advice, code = "Log in again, or give the context of another user with --context", Code.UNREACHABLE
        case 403:
            advice, code = "Ask for the rights that docs/cli.md lists", Code.UNREACHABLE
        case 404:
            advice, code = "Check the name, and that the Configuration is installed (kubectl get xrd)", Code.NOT_FOUND
        case 400 | 409 | 422:
            advice, code = "Correct what it names", Code.REFUSED
        case _:
            advice, code = "Try again", Code.UNREACHABLE
    return CliError(f"cannot {what}: {message.rstrip('.') or status}. {advice}", code)
