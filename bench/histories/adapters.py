"""LoRA adapters of a history: what users ask for, and what must hold of what engines load.

The repository of an adapter is called like the adapter, so that a directory tells which of them it should be.
"""

from random import Random

from function.kube.manifests import JSON, Manifest, get, list_texts, listing, mapping, text

NAMES = ("first", "second", "third")
MOST = 2  # of a deployment, as all profiles allow
_FLAG = "--lora-modules"


def allow_adapters(model: Manifest) -> Manifest:
    """Returns a model of which every profile allows adapters."""
    spec = mapping(model, "spec")
    serving: list[JSON] = [{**profile, "lora": {"maxAdapters": MOST}} for profile in listing(spec, "serving")]
    return {**model, "spec": {**spec, "serving": serving}}


def choose_adapters(random: Random) -> Manifest:
    """Returns adapters for a deployment; mostly none."""
    count = random.choice((0, 0, 0, 1, 2))
    chosen: list[JSON] = [
        {"name": name, "source": "HuggingFace", "huggingFace": {"repo": f"org/{name}", "revision": "main"}}
        for name in sorted(random.sample(NAMES, count))
    ]
    return {"adapters": chosen} if chosen else {}


def read_adapters(service: Manifest) -> dict[str, str]:
    """Returns the URI of each adapter that the engines of a service load, by its name."""
    found: dict[str, str] = {}
    for container in listing(service, "spec.template.containers"):
        args = list_texts(container, "args")
        mounts = {text(mount, "mountPath"): mount for mount in listing(container, "volumeMounts")}
        for value in args[args.index(_FLAG) + 1 :] if _FLAG in args else ():
            if value.startswith("-"):
                break
            name, _, path = value.partition("=")
            mount = mounts[path]
            volumes = (v for v in listing(service, "spec.template.volumes") if v.get("name") == mount.get("name"))
            claim = get(next(volumes), "persistentVolumeClaim.claimName")
            found[name] = f"pvc://{claim}/{text(mount, 'subPath')}"
    return found


def list_served(service: Manifest) -> list[tuple[str, str]]:
    """Returns the repository and the URI of what a service reads: its model's first, then those of its adapters."""
    adapters = read_adapters(service)
    model = text(service, "spec.model.name"), text(service, "spec.model.uri")
    return [model, *((f"org/{name}", uri) for name, uri in adapters.items())]


def list_read_uris(service: Manifest) -> list[str]:
    """Returns the URIs of what a service reads."""
    return [uri for _, uri in list_served(service)]
