"""The real Crossplane programs as functions: render with core's own engine, validate, build packages.

Nothing here touches a network or a container engine: the function is a process on loopback, core a binary.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from function.cli.composing import find_composition
from function.cli.store import Ref, Store
from function.composers import COMPOSERS
from function.kube.manifests import Manifest, listing, text
from function.kube.names import COMPOSITION_KEY
from tools import keda, programs
from tools.control_plane import Rendered
from tools.documents import LOADER, documents

APIS = programs.ROOT / "apis"
WORKERS = 2


class CrossplaneError(Exception):
    """A program refused; the message is what it said."""


def read(path: Path) -> list[Manifest]:
    """Return the manifests of a file."""
    return documents(path)


def write(path: Path, manifests: Iterable[Manifest]) -> Path:
    """Write manifests as one file; JSON, so that no string is taken for something else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"---\n{json.dumps(manifest)}\n" for manifest in manifests))
    return path


@cache
def kinds() -> Mapping[str, Path]:
    """Return the folder of each composite kind."""
    found = {}
    for definition in APIS.glob("*/definition.yaml"):
        found[text(read(definition)[0], "spec.names.kind")] = definition.parent
    return found


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders with one running function, through files in one folder."""

    function: str
    folder: Path

    def render(self, store: Store, refs: Sequence[Ref]) -> list[Rendered]:
        """Return what core makes of the function's answers.

        Raises:
            CrossplaneError: A pipeline failed, or core refused its result.
        """
        with ThreadPoolExecutor(WORKERS) as pool:
            return list(pool.map(lambda ref: self._render(store, ref), refs))

    def _render(self, store: Store, ref: Ref) -> Rendered:
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            return self._render_in(Path(folder), store, ref)

    def _render_in(self, folder: Path, store: Store, ref: Ref) -> Rendered:
        api, own = kinds()[ref.kind], find_composition(store, store[ref])
        composition = write(folder / "composition.yaml", [own]) if own else api / "composition.yaml"
        required = [store[other] for other in store.refs(*COMPOSERS)]
        options = [
            f"--xrd={api / 'definition.yaml'}",
            f"--required-resources={write(folder / 'required.yaml', required)}",
            "--include-full-xr",
            "--include-function-results",
        ]
        observed = store.owned(ref).values()
        if observed:
            options.append(f"--observed-resources={write(folder / 'observed.yaml', observed)}")
        runner = write(folder / "functions.yaml", [build_runner("function-modelplane", self.function)])
        return render(write(folder / "xr.yaml", [store[ref]]), composition, runner, *options)


def build_runner(name: str, address: str) -> Manifest:
    """Return a Function that runs already."""
    annotations: Manifest = {
        "render.crossplane.io/runtime": "Development",
        "render.crossplane.io/runtime-development-target": address,
    }
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "Function",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"package": f"example/{name}"},
    }


def render(xr: Path, composition: Path, functions: Path, *options: str) -> Rendered:
    """Return what core makes of the answers of running functions.

    Raises:
        CrossplaneError: A pipeline failed, or core refused its result.
    """
    core = f"--crossplane-binary={programs.path('crossplane-core')}"
    return _rendered(_run("composition", "render", str(xr), str(composition), str(functions), core, *options))


def _rendered(said: str) -> Rendered:
    composite, *others = (item for item in yaml.load_all(said, LOADER) if item)
    composed, results = {}, []
    for item in others:
        annotations = item.get("metadata", {}).get("annotations", {})
        if COMPOSITION_KEY in annotations:
            composed[annotations[COMPOSITION_KEY]] = item
        else:
            results.append(item)
    return Rendered(said=said, composite=composite, composed=composed, results=tuple(results))


def extensions(folder: Path) -> Path:
    """Write every schema that manifests are checked against: our XRDs, and the CRDs of what we compose."""
    sources = [
        *(
            programs.module_dir("provider-kubernetes", "github.com/crossplane-contrib/provider-kubernetes")
            / f"package/crds/kubernetes.m.crossplane.io_{kind}.yaml"
            for kind in ("objects", "clusterproviderconfigs", "providerconfigusages")
        ),
        *(
            programs.module_dir("core", "github.com/crossplane/crossplane/v2") / "cluster/crds" / f"{name}.yaml"
            for name in (
                "apiextensions.crossplane.io_compositions",
                "apiextensions.crossplane.io_managedresourceactivationpolicies",
                "pkg.crossplane.io_configurations",
                "pkg.crossplane.io_deploymentruntimeconfigs",
                "pkg.crossplane.io_functions",
                "pkg.crossplane.io_imageconfigs",
                "pkg.crossplane.io_providers",
                "protection.crossplane.io_usages",
            )
        ),
        *(
            programs.module_dir("kserve", "github.com/kserve/kserve") / "config/crd/full/llmisvc" / name
            for name in (
                "serving.kserve.io_llminferenceservices.yaml",
                "serving.kserve.io_llminferenceserviceconfigs.yaml",
            )
        ),
        *(
            programs.module_dir("kserve", "sigs.k8s.io/gateway-api")
            / f"config/crd/standard/gateway.networking.k8s.io_{kind}.yaml"
            for kind in ("httproutes", "backendtlspolicies")
        ),
        keda.module_dir() / "config/crd/bases/keda.sh_scaledobjects.yaml",
        programs.ROOT / "package/input/defaults.yaml",
        *sorted(APIS.glob("*/definition.yaml")),
    ]
    write(folder / "extensions.yaml", (item for source in sources for item in read(source)))
    return folder


def validate(schemas: Path, manifests: Iterable[Manifest], folder: Path) -> list[str]:
    """Return every fault that `crossplane resource validate` finds, as `Kind/name: message`."""
    resources = write(folder / "resources.yaml", manifests)
    arguments = ("resource", "validate", "--crossplane-image=", "--output=json", str(schemas), str(resources))
    done = _start(*arguments)
    if not done.stdout.startswith("{"):
        raise CrossplaneError(done.stderr)
    return [
        f"{text(resource, 'kind')}/{text(resource, 'name')}: {fault}"
        for resource in listing(json.loads(done.stdout), "resources")
        for fault in _faults(resource)
    ]


def _faults(resource: Manifest) -> list[str]:
    if text(resource, "status") == "missingSchema":
        return ["there is no schema to check it against"]
    return [text(error, "message") for error in listing(resource, "errors")]


def build(root: Path, package: Path, image: Path | None = None) -> Path:
    """Build a package from a folder, around a runtime image if there is one.

    Raises:
        CrossplaneError: The folder is no package.
    """
    runtime = (f"--embed-runtime-image-tarball={image}",) if image else ()
    _run("xpkg", "build", f"--package-root={root}", f"--package-file={package}", *runtime)
    return package


def _run(*arguments: str) -> str:
    done = _start(*arguments)
    if done.returncode:
        raise CrossplaneError(done.stderr)
    return done.stdout


def _start(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = (str(programs.path("crossplane")), *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
