"""The flags whose value is settled where a service is written, and what of them an author may repeat.

An engine that listens elsewhere, reads other weights, joins other nodes or answers to another name is reached by
nobody, and says so after the weights were fetched. `SETTLED` is the whole list (docs/reference.md repeats it). Sizes of
parallelism are not in it, they must agree with the replica's shape (engine_args.py), nor is vLLM's
`--distributed-executor-backend`, which is the author's word (executor.py).

Engines take the beginning of a flag for the flag where it is unambiguous, hence none that is settled may be shortened.
One letter is never unambiguous.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from function.domain.engine_args import SIZES, SWITCHES
from function.domain.executor import BACKEND
from function.domain.flags import Flag, read
from function.domain.model import EngineName, HuggingFaceSource, Source
from function.domain.problem import Problem

PORT = 8000  # KServe's Service and routes know no other
ADDRESS = "0.0.0.0"  # noqa: S104  # a pod answers on every address it has
MOUNT = "/mnt/models"  # where KServe mounts every model, whatever its source
SERVED_NAME = "--served-model-name"
WEIGHTS: Mapping[EngineName, tuple[str, ...]] = {
    EngineName.VLLM: ("--model",),
    EngineName.SGLANG: ("--model-path", "--model"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Flags of one meaning. A name that ends in `*` is any that begins so; `value` may be repeated, if it is one."""

    names: tuple[str, ...]
    by: str
    value: str = ""

    def covers(self, name: str) -> bool:
        """Tell whether a flag is one of these."""
        return any(name == n or (n.endswith("*") and name.startswith(n[:-1])) for n in self.names)


_ADDRESS = Settled(names=("--host",), by=f"the engine answers on {ADDRESS}", value=ADDRESS)
_PORT = Settled(names=("--port",), by=f"KServe knows port {PORT} only", value=str(PORT))
_TLS = Settled(names=("--ssl-*", "--enable-ssl-refresh"), by="TLS is the cluster's")
_FILE = Settled(names=("--config",), by="a file hides flags from every check")
_RANK = "the pod's place in its group decides"
SETTLED: Mapping[EngineName, tuple[Settled, ...]] = {
    EngineName.VLLM: (
        _ADDRESS,
        _PORT,
        Settled(names=("--uds", "--root-path", "--grpc*"), by=f"KServe asks for HTTP on port {PORT} at /"),
        _TLS,
        _FILE,
        Settled(names=("--api-server-count", "-asc", "--headless"), by="the first pod of a group serves"),
        Settled(names=("--nnodes", "-n", "--node-rank", "-r", "--master-*"), by=_RANK),
        Settled(names=("--data-parallel-*", "-dp*"), by=_RANK),
        Settled(names=("--prefill-context-parallel-size", "-pcp"), by="it multiplies the GPUs of a replica", value="1"),
    ),
    EngineName.SGLANG: (
        _ADDRESS,
        _PORT,
        Settled(names=("--grpc-mode",), by=f"KServe asks for HTTP on port {PORT} at /"),
        _TLS,
        _FILE,
        Settled(names=("--nnodes", "--node-rank", "--dist-init-addr", "--nccl-init-addr"), by=_RANK),
    ),
}


def settled_faults(
    engine: EngineName, args: tuple[str, ...], source: Source, served_name: str, path: str
) -> tuple[Problem, ...]:
    """Return a problem for each argument that says something else than what is settled, with what is."""
    found = [*_positional(engine, args, source, path)]
    for flag in read(args):
        problem = _fault(engine, flag, source, served_name)
        if problem:
            found.append(Problem(f"{path}[{flag.index}]", problem))
    return tuple(found)


def without_settled(engine: EngineName, args: tuple[str, ...], source: Source) -> tuple[str, ...]:
    """Return the arguments without those that repeat the weights or the served name, which would undo ours."""
    dropped = {0} if args and _repeats(args[0], source) else set()
    for flag in read(args):
        if flag.name in WEIGHTS[engine] or flag.name == SERVED_NAME:
            dropped.update(range(flag.index, flag.index + 1 + (0 if flag.attached else len(flag.values))))
    return tuple(arg for index, arg in enumerate(args) if index not in dropped)


def _positional(engine: EngineName, args: tuple[str, ...], source: Source, path: str) -> Iterator[Problem]:
    """Only what stands first is certain to be no flag's value; vLLM takes it for the model, SGLang for a mistake."""
    if args and not args[0].startswith("-") and not (engine is EngineName.VLLM and _repeats(args[0], source)):
        yield Problem(f"{path}[0]", f"{args[0]!r} is no flag; must be left out, the model's source has the weights")


def _fault(engine: EngineName, flag: Flag, source: Source, served_name: str) -> str:
    name, *rest = flag.name.split(maxsplit=1)
    if name in WEIGHTS[engine]:
        if not rest and flag.values and _repeats(flag.value, source):
            return ""
        return f"{flag.text} names other weights; must be left out, the model's source has them, at {MOUNT}"
    if name == SERVED_NAME:
        if not rest and flag.values == (served_name,):
            return ""
        return f"{name} has {' '.join(flag.values)!r}; must be left out or {served_name}, spec.model.name"
    settled = next((row for row in SETTLED[engine] if row.covers(name) and name not in SIZES[engine]), None)
    if settled is None:
        return _shortened(engine, name)
    if settled.value and not rest and flag.values == (settled.value,):
        return ""
    allowed = f" or {settled.value}" if settled.value else ""
    return f"{flag.text} is settled: {settled.by}; must be left out{allowed}"


def _shortened(engine: EngineName, name: str) -> str:
    known = [*SIZES[engine], *SWITCHES[engine], *WEIGHTS[engine], SERVED_NAME, BACKEND]
    known += [n.rstrip("*-") for row in SETTLED[engine] for n in row.names]
    if not name.startswith("--") or len(name) <= len("--x") or name in known:
        return ""
    full = next((flag for flag in known if flag.startswith(name)), "")
    return f"{name} may stand for {full}; must be written in full" if full else ""


def _repeats(value: str, source: Source) -> bool:
    return value == MOUNT or (isinstance(source, HuggingFaceSource) and value == source.repo)
