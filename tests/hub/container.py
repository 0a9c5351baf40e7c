"""Run a Job's container as a process: its own command, arguments and variables over a temporary directory.

What a kubelet does is done here: $(NAME) is expanded and $$ unescaped, references to Secrets and to the
pod's labels are resolved, volumes are directories, and that of the scripts has the files of the ConfigMap.
Nothing of the surrounding environment gets in.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from function.domain.model import DownloadedSource, HuggingFaceSource
from function.domain.settings import BUILT_IN
from function.kube import manifests
from function.kube.manifests import JSON, Manifest
from function.weights.credentials import plan_credential
from function.weights.job import DownloadSpec, build_job, build_scripts
from function.weights.request import cache_key
from tools.initializer import find_sources, install_image_packages, write_program

SOURCE = HuggingFaceSource(repo="owner/model")

LIMIT = 30


@dataclass(frozen=True, kw_only=True)
class Initializer:
    """KServe's entry point and storage program, and the Python that runs them; by default with the image's packages."""

    python: Path = field(default_factory=install_image_packages)
    sources: Path = field(default_factory=find_sources)

    def write(self, program: Path) -> None:
        """Write the entry point as a program that imports KServe's own storage program."""
        write_program(program, self.python, self.sources)


@dataclass(frozen=True, kw_only=True)
class Container:
    """The container of a download Job over a claim that is a directory."""

    job: Manifest
    scripts: Manifest
    claim: Path
    initializer: Initializer
    secrets: dict[tuple[str, str], str] = field(default_factory=dict)
    completion: int = 0  # of an Indexed Job
    before: Callable[[], None] | None = None  # runs in the process of the container, before the command

    @property
    def spec(self) -> Manifest:
        """The container's own block."""
        return manifests.listing(self.job, "spec.template.spec.containers")[0]

    @property
    def directory(self) -> Path:
        """Where the Job writes."""
        return Path(self._command()[-1])

    def run(self) -> tuple[int, str]:
        """Run it to its end; return its exit code and what it said."""
        process = self.start()
        output, _ = process.communicate(timeout=LIMIT)
        return process.returncode, output

    def start(self) -> "subprocess.Popen[str]":
        """Start it; the caller ends it."""
        # Every pod has an emptyDir of its own: what the client remembered there is gone.
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        self._mount_scripts()
        self.initializer.write(self._program)
        return subprocess.Popen(
            self._command(),
            env=self._env(),
            preexec_fn=self.before,  # noqa: PLW1509  # it calls the kernel alone
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def _scratch(self) -> Path:
        return self.claim.with_name("scratch")

    def _mount_scripts(self) -> None:
        """Write the ConfigMap's files where the pod mounts them.

        Raises:
            StopIteration: The pod mounts another ConfigMap.
        """
        name = manifests.text(self.scripts, "metadata.name")
        volumes = manifests.listing(self.job, "spec.template.spec.volumes")
        next(volume for volume in volumes if manifests.text(volume, "configMap.name") == name)
        self._scripts.mkdir(exist_ok=True)
        for file, script in manifests.strings(self.scripts, "data").items():
            (self._scripts / file).write_text(script)

    @property
    def _scripts(self) -> Path:
        return self.claim.with_name("scripts")

    def _command(self) -> list[str]:
        env = self._env()
        command, args = self.spec["command"], self.spec["args"]
        assert isinstance(command, list)
        assert isinstance(args, list)
        words = [self._path(expanded(str(word), env)) for word in (*command, *args)]
        assert words[0] == "python3"
        return [sys.executable, *words[1:]]

    def _env(self) -> dict[str, str]:
        env: dict[str, str] = {}
        for entry in manifests.listing(self.spec, "env"):
            env[str(entry["name"])] = self._path(expanded(self._value(entry), env))
        if manifests.text(self.job, "spec.completionMode") == "Indexed":
            env["JOB_COMPLETION_INDEX"] = str(self.completion)
        return {"MODELPLANE_INITIALIZER": str(self._program), "PATH": os.environ["PATH"], **env}

    def _value(self, entry: Manifest) -> str:
        secret = manifests.mapping(entry, "valueFrom.secretKeyRef")
        if secret:
            return self.secrets[str(secret["name"]), str(secret["key"])]
        if manifests.text(entry, "valueFrom.fieldRef.fieldPath") == "metadata.labels['job-name']":
            return manifests.text(self.job, "metadata.name")
        return manifests.text(entry, "value")

    def _path(self, word: str) -> str:
        places = {"weights": self.claim, "scratch": self._scratch, "scripts": self._scripts}
        for mount in manifests.listing(self.spec, "volumeMounts"):
            inside = str(mount["mountPath"])
            if word.startswith(f"{inside}/"):
                return str(places[str(mount["name"])]) + word.removeprefix(inside)
        return word

    @property
    def _program(self) -> Path:
        return self.claim.with_name("initializer-entrypoint")


def downloading(
    claim: Path,
    initializer: Initializer,
    source: DownloadedSource = SOURCE,
    *,
    env: Mapping[str, str],
    retry: str = "",
    backoff: int = 6,
    token: str = "",
    parts: int = 1,
) -> Container:
    """Return the container of the Job that downloads a source, with these variables."""
    variables: tuple[Manifest, ...] = tuple({"name": name, "value": value} for name, value in env.items())
    config_map = build_scripts("team", "kimi", cache_key(source))
    task = DownloadSpec(
        namespace="team",
        stem="kimi",
        claim="claim",
        scripts=manifests.text(config_map, "metadata.name"),
        source=source,
        download=replace(BUILT_IN.download, env=variables, backoff_limit=backoff),
        credential=plan_credential(source, None, "copy"),
        retry=retry,
        parts=parts,
    )
    return Container(
        job=build_job(task),
        scripts=config_map,
        claim=claim,
        initializer=initializer,
        secrets={("copy", "HF_TOKEN"): token},
    )


def expanded(value: JSON, env: dict[str, str]) -> str:
    """Return the value as Kubernetes passes it on."""
    return re.sub(
        r"\$\$|\$\(([^)]+)\)", lambda found: "$" if found[0] == "$$" else env.get(found[1], found[0]), str(value)
    )
