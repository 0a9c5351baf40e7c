"""Where things lie and listen: one folder holds all that a stack writes, one network namespace all its ports.

The ports are the programs' usual ones; the namespace keeps them from clashing with anything outside.
"""

from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]

ETCD = 2379
ETCD_PEER = 2380
HUB = 6443
REMOTE = 6444
WEST = 6445
REGISTRY = 5000
FUNCTION = 9543  # 9443 belongs to provider-kubernetes, which has no option for it
LWS_WEBHOOK = 9643
KSERVE_WEBHOOK = 9743
KUEUE_WEBHOOK = 9843
PYTHONIC = 9943  # function-pythonic
CORE_METRICS = 18080
CORE_HEALTH = 18081
CORE_WEBHOOK = 18079
PROVIDER_HEALTH = 18082
LWS_HEALTH = 18083
KSERVE_HEALTH = 18084
FUNCTION_METRICS = 18085
STATE_METRICS = 18086
STATE_TELEMETRY = 18087
PROMETHEUS = 19090
TARGETS = 19091
KUEUE_HEALTH = 19092
KEDA_METRICS_SERVER = 20443
KEDA_OPERATOR = 20666  # where the metrics server asks the operator
KEDA_OPERATOR_METRICS = 20080
KEDA_OPERATOR_HEALTH = 20081
KEDA_SERVER_METRICS = 20082
KEDA_WEBHOOKS = 20083
KEDA_WEBHOOKS_METRICS = 20084
KEDA_WEBHOOKS_HEALTH = 20085
LWS_METRICS = 18443
KSERVE_METRICS = 18444
KWOK = 10247
GATEWAY = 80
ENGINE = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A GPU cluster: its API server, the addresses that it gives, and what tells its programs from another's."""

    name: str
    port: int
    services: str  # addresses of Services
    pods: str  # addresses of pods; all of them are local to the stack
    executor: str  # the identity of provider-kubernetes there
    prefix: str = ""  # of the names of its programs
    shift: int = 0  # of their ports


EAST = Cluster(name="remote", port=REMOTE, services="10.1.0.0/24", pods="10.0.0.0/24", executor="executor")
# Only scenarios with two GPU clusters start it.
WESTERN = Cluster(
    name="west",
    port=WEST,
    services="10.2.0.0/24",
    pods="10.64.0.0/24",
    executor="west-executor",
    prefix="west-",
    shift=1000,
)


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one stack."""

    root: Path

    @property
    def certificates(self) -> Path:
        """Keys and certificates."""
        return self.root / "certificates"

    @property
    def server_tls(self) -> Path:
        """A folder with tls.crt, tls.key and ca.crt, as webhooks and functions want it."""
        return self.certificates / "server"

    @property
    def logs(self) -> Path:
        """One file for each program."""
        return self.root / "logs"

    @property
    def records(self) -> Path:
        """One record for each running program."""
        return self.root / "run"

    @property
    def manifests(self) -> Path:
        """Manifests rewritten from the modules of other projects."""
        return self.root / "manifests"

    @property
    def packages(self) -> Path:
        """Packages that were built, and functions unpacked."""
        return self.root / "packages"

    @property
    def registry(self) -> Path:
        """What was pushed."""
        return self.root / "registry"

    @property
    def package_cache(self) -> Path:
        """What core pulled; it fails with a closed pipe where the folder does not exist."""
        return self.root / "package-cache"

    def kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of an identity, such as hub, remote, core, provider or executor."""
        return self.root / f"{name}.kubeconfig"

    def create(self) -> None:
        """Make the folders."""
        for folder in (
            self.server_tls,
            self.logs,
            self.records,
            self.manifests,
            self.packages,
            self.registry,
            self.package_cache,
        ):
            folder.mkdir(parents=True, exist_ok=True)
