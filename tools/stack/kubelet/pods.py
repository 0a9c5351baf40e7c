"""The life of one pod: volumes, init containers one after another, containers with their probes and restarts, the end.

Each pod has a thread, which alone starts and ends its processes and writes its status.
"""

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from function.kube.manifests import Manifest, integer, is_deleting, list_texts, listing, text
from tools.stack.api import Api
from tools.stack.kubelet.containers import Running, Start, start_container
from tools.stack.kubelet.images import find_image
from tools.stack.kubelet.probes import Health
from tools.stack.kubelet.sandbox import NODE_ADDRESS, address_of, open_sandbox
from tools.stack.kubelet.status import Observed, build_status, write_time
from tools.stack.kubelet.variables import MissingError, hostname, list_variables
from tools.stack.kubelet.volumes import list_mounts, make_volumes

_ROUND = 0.3
_GRACE, _LEAST_GRACE = 30, 2
_BACKOFF, _LONGEST_BACKOFF = 10, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the pods of one cluster keep what they need."""

    pods: Path
    claims: Path
    images: Path
    logs: Path
    hosts: Path


@dataclass(slots=True)
class _Container:
    """One container with its process, if it runs."""

    observed: Observed
    running: Running | None = None
    health: Health | None = None
    starts_at: float = 0.0


class PodRunner(threading.Thread):
    """Runs one pod until it is deleted."""

    def __init__(self, api: Api, pod: Manifest, number: int, place: Place) -> None:
        super().__init__(name=text(pod, "metadata.name"))
        self.pod, self.address = pod, address_of(number)
        self.is_gone = False  # it is not in the API server any more, or the stand-in ends
        self._api, self._number, self._place = api, number, place
        self._folder = place.pods / text(pod, "metadata.uid")
        self._phase, self._written = "Pending", ""
        self._sandbox: subprocess.Popen[bytes] | None = None
        self._volumes: dict[str, Path | None] = {}
        self._before, self._main = (
            [_Container(Observed(spec)) for spec in listing(pod, f"spec.{kind}")]
            for kind in ("initContainers", "containers")
        )

    @property
    def is_finished(self) -> bool:
        """Whether it has ended and will not run again."""
        return self._phase in {"Succeeded", "Failed"}

    def run(self) -> None:
        """Runs the pod; an error of the stand-in itself is the reason in its status."""
        try:
            self._live()
        except Exception as error:  # noqa: BLE001  # seen in `kubectl get pods`, as an error of the kubelet is
            print(f"{self.name}: {type(error).__name__}: {error}", flush=True)
            for container in self._main:
                container.observed.waits, container.observed.detail = "CreateContainerError", str(error)
            self._wait_for(lambda: False)
        self._finish()

    def _live(self) -> None:
        self._sandbox = open_sandbox(hostname(self.pod), self._number)
        if not self._wait_for(self._has_volumes):
            return
        for container in self._before:
            if not self._wait_for(partial(self._completes, container)) or self.is_finished:
                return
        self._phase = "Running"
        self._wait_for(self._serve)

    def _wait_for(self, step: Callable[[], bool]) -> bool:
        """Repeats a step until it is done; False if the pod is deleted before."""
        while not self.is_gone and not is_deleting(self.pod):
            done = step()
            self._write_status()
            if done:
                return True
            time.sleep(_ROUND)
        return False

    def _has_volumes(self) -> bool:
        try:
            self._volumes = make_volumes(self.pod, self._folder / "volumes", self._place.claims, self._api)
        except MissingError as missing:
            for container in (*self._before, *self._main):
                container.observed.waits, container.observed.detail = "ContainerCreating", str(missing)
            return False
        return True

    def _completes(self, container: _Container) -> bool:
        """Runs an init container; True when it has succeeded or the pod has failed."""
        self._step(container)
        ended = container.observed.terminated
        if ended is not None and ended["exitCode"]:
            self._phase = "Failed"
        return ended is not None

    def _serve(self) -> bool:
        """Runs the containers; True when all have ended for good."""
        for container in self._main:
            self._step(container)
        ends = [container.observed.terminated for container in self._main]
        if all(ends):
            self._phase = "Failed" if any(end and end["exitCode"] for end in ends) else "Succeeded"
        return self.is_finished

    def _step(self, container: _Container) -> None:
        """Starts a container, looks after it, or notes how it ended."""
        if container.running is None:
            if container.observed.terminated is None and time.time() >= container.starts_at:
                self._start(container)
            return
        if container.running.exit_code() is not None:
            self._note_end(container)
            return
        self._probe(container, is_ending=False)
        if container.health and container.health.must_restart:
            print(f"{self.name}: restarts, as {container.health.must_restart}", flush=True)
            self._end(container, time.time() + self._grace())
            self._note_end(container)

    def _start(self, container: _Container) -> None:
        spec, observed = container.observed.spec, container.observed
        image = find_image(text(spec, "image"), self._place.images)
        if image is None:
            observed.waits, observed.detail = "ImagePullBackOff", f"no stand-in for {text(spec, 'image')}"
            return
        located: Manifest = {**self.pod, "status": {"podIP": self.address, "hostIP": NODE_ADDRESS}}
        try:
            variables = list_variables(spec, located, self._api, image.list_variables())
        except MissingError as missing:
            observed.waits, observed.detail = "CreateContainerConfigError", str(missing)
            return
        assert self._sandbox is not None
        start = Start(
            container=spec,
            pod=self.pod,
            image=image,
            variables=variables,
            mounts=[*list_mounts(spec, self._volumes, variables)],
            hosts=self._place.hosts,
            folder=self._folder / text(spec, "name"),
            log=self._log(container),
        )
        container.running = start_container(start, self._sandbox.pid)
        container.health = Health(spec, self.address, container.running.started)
        observed.is_running, observed.started_at = True, container.running.started
        self._probe(container, is_ending=False)

    def _probe(self, container: _Container, *, is_ending: bool) -> None:
        if health := container.health:
            health.run(is_ending=is_ending)
            container.observed.started, container.observed.ready = health.started, health.ready

    def _note_end(self, container: _Container) -> None:
        """Notes how a container ended; it starts once more where the policy says so."""
        running, observed = container.running, container.observed
        assert running is not None
        code = running.exit_code() or 0
        falls_back = text(observed.spec, "terminationMessagePolicy") == "FallbackToLogsOnError"
        end: Manifest = {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "message": running.message(self._log(container), falls_back=falls_back),
            "startedAt": write_time(running.started),
            "finishedAt": write_time(time.time()),
        }
        container.running = container.health = None
        observed.is_running = observed.started = observed.ready = False
        policy = text(self.pod, "spec.restartPolicy") or "Always"
        is_init = container in self._before
        if policy == "Never" or ((policy == "OnFailure" or is_init) and not code):
            observed.terminated = end
            return
        delay = min(_BACKOFF * 2 ** (observed.restarts - 1), _LONGEST_BACKOFF) if observed.restarts else 0
        container.starts_at = time.time() + delay
        observed.last, observed.waits, observed.detail = end, "CrashLoopBackOff", ""
        observed.restarts += 1

    def _grace(self) -> int:
        seconds = integer(self.pod, "metadata.deletionGracePeriodSeconds", -1)
        return seconds if seconds >= 0 else integer(self.pod, "spec.terminationGracePeriodSeconds", _GRACE)

    def _end(self, container: _Container, by: float) -> None:
        """Ends a container: `preStop`, then SIGTERM, then SIGKILL when its time is over."""
        running = container.running
        if running is None:
            return
        if command := list_texts(container.observed.spec, "lifecycle.preStop.exec.command"):
            waiting = threading.Thread(target=running.execute, args=(command, by - time.time()))
            waiting.start()
            while waiting.is_alive() and running.exit_code() is None and not self.is_gone:
                self._probe(container, is_ending=True)
                self._write_status()
                time.sleep(_ROUND)
        running.signal(signal.SIGTERM)
        by = max(by, time.time() + _LEAST_GRACE)
        while running.exit_code() is None and time.time() < by and not self.is_gone:
            self._probe(container, is_ending=True)
            self._write_status()
            time.sleep(_ROUND)
        running.kill()

    def _finish(self) -> None:
        """Ends what still runs, and deletes the pod once the API server wants it gone."""
        by = time.time() + self._grace()
        for container in (*self._before, *self._main):
            if container.running is not None:
                self._end(container, by)
                self._note_end(container)
        self._write_status()
        if self._sandbox is not None:
            self._sandbox.kill()
            self._sandbox.wait()
        while not self.is_gone:
            if is_deleting(self.pod):
                name, namespace = text(self.pod, "metadata.name"), text(self.pod, "metadata.namespace")
                with contextlib.suppress(OSError):  # tried once more
                    self._api.delete("Pod", name, namespace, grace_seconds=0, uid=text(self.pod, "metadata.uid"))
            time.sleep(_ROUND)

    def _write_status(self) -> None:
        """Writes the status, if it has changed."""
        groups = tuple([c.observed for c in part] for part in (self._before, self._main))
        status = build_status(self.pod, (self.address, NODE_ADDRESS), self._phase, (groups[0], groups[1]))
        compared = str({key: value for key, value in status.items() if key != "conditions"}) + str(
            [(text(c, "type"), text(c, "status")) for c in listing(status, "conditions")]
        )
        if compared == self._written or self.is_gone:
            return
        started = text(self.pod, "status.startTime") or write_time(time.time())
        name, namespace = text(self.pod, "metadata.name"), text(self.pod, "metadata.namespace")
        try:
            self._api.patch("Pod", name, {"status": {**status, "startTime": started}}, namespace, part="status")
        except OSError as error:  # the pod is gone, or the API server is away
            print(f"{name}: {error}", flush=True)
            return
        self._written = compared

    def _log(self, container: _Container) -> Path:
        namespace = text(self.pod, "metadata.namespace")
        return self._place.logs / f"pod-{namespace}-{self.name}-{text(container.observed.spec, 'name')}.log"
