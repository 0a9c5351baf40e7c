"""What must never happen, by intent: looked at on every write, and once more at rest.

Each object that runs was requested by a user, and is deleted at the request of its owner. Weights in use are never
deleted, whatever was requested of their owner, unless its own owner was deleted by hand. GPUs and who may go are the
simulator's own auditor's, which looks at what the Objects describe; what the clusters run may lag behind that, and is
looked at here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, prod

from bench.histories.adapters import list_read_uris, list_served
from bench.histories.clusters import Place, config, pods, remote
from bench.histories.grants import Row, find_row, read_grants, read_row
from bench.histories.kept import KeptAuditor
from bench.histories.lending import LendingAuditor
from bench.histories.plane import Plane
from bench.histories.rollouts import RolloutAuditor
from bench.histories.room import (
    Holding,
    count_missing,
    count_usable_environments,
    find_running,
    grows,
    has_refused_pool,
    list_counted_pools,
    room_beside,
    suits_pool,
    take_all,
)
from bench.histories.taints import TaintAuditor, is_tainted
from bench.histories.traffic import TrafficAuditor
from bench.histories.words import LIST, Words, is_endless, lists
from bench.simulator import fleet, invariants
from bench.simulator.invariants import Held, held_by
from bench.simulator.invariants import gpus as held_gpus
from bench.simulator.objects import Event, Version
from function.capacity.pools import PoolCapacity
from function.cli.store import Ref
from function.composers import COMPOSERS
from function.domain.allocation import Limits, Share
from function.kube.manifests import condition, flag, get, integer, listing, mapping, strings, text
from function.kube.names import LABEL_OWNER
from function.reasons import OPTIONAL, OWNED, Refused
from function.remote.object_writer import deletes
from function.weights.consumers import parse_claim
from tools.world import SECRET_VALUE

OWN_CLAIM = "own-claim"
# How often a placement may be decided again for one thing that was asked for, as others take the room.
MOST_MOVES = 12
SEEN_SECONDS = 30.0  # after which every controller has seen what has started
GPU_GIB = 141  # of each pool, see bench/fleet.py
_PLACE = ("profile", "pool", "topology", "inferenceEnvironmentRef")
_PARALLELISM = "spec.forProvider.manifest.spec.parallelism"
_NODES = "spec.forProvider.manifest.spec.template.nodeSelector"
_SECRET = SECRET_VALUE.encode()
_WAITS = {"Waiting", "Rejected"}
# Reasons for which a deployment does not get what it asks for that room would cure.
_FOR_WANT_OF_ROOM = {Refused.INSUFFICIENT_CAPACITY, Refused.POOL_TOO_SMALL}


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory of a claim on a cluster."""

    cluster: str
    namespace: str
    path: str


class FoundError(Exception):
    """Something that must never happen, where no more than that was looked for."""


class Auditor(invariants.Auditor):
    """Watches a control plane, and knows what its users have said. `ends`: the first violation ends the history."""

    ends = False

    def __init__(self, plane: Plane, words: Words) -> None:
        self.plane, self.words = plane, words
        self.limits, self._limited = Limits(), -inf  # of each namespace, and since when
        self._filled: dict[Directory, tuple[str, float]] = {}  # with what, and until when a controller may believe so
        self._changed: dict[str, float] = {}
        self._reshaped: dict[str, float] = {}
        self._moved: dict[str, float] = {}
        self._begun: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._running: dict[Ref, tuple[str, Held]] = {}
        self._admitted: dict[Row, float] = {}  # since when
        self._moves: Counter[str] = Counter()  # of a placement, since anything was asked for
        self._traffic = TrafficAuditor(plane, words, self.say)
        self._rollouts, self._lending = RolloutAuditor(self, self.say), LendingAuditor(self, self.say)
        others = TaintAuditor(self, words, self.say), KeptAuditor(self, self.say)
        self._others = self._traffic, self._rollouts, self._lending, *others
        super().__init__(plane)

    def set_limits(self, limits: Limits) -> None:
        """Take note of what each namespace may have from now on."""
        if limits != self.limits:
            self.limits, self._limited = limits, self.plane.kernel.now

    def emptied(self, place: Place) -> None:
        """Take note that all claims of a namespace on a cluster are gone, which is news for a while."""
        for directory, (source, until) in self._filled.items():
            if (directory.cluster, directory.namespace) == place:
                self._filled[directory] = source, min(until, self.plane.kernel.now + SEEN_SECONDS)

    def say(self, what: str) -> None:
        """Take note of what must never happen.

        Raises:
            FoundError: It was looked for.
        """
        self._say(what)

    def _say(self, what: str) -> None:
        super()._say(what)
        if self.ends:
            raise FoundError

    def _watch(self, event: Event) -> None:
        super()._watch(event)
        for other in self._others:
            other.watch(event)
        if event.ref.kind == "Object":
            self._look_at_running(event)
            self._look_at_object(event)
        elif event.ref.kind == "ModelPlacement" and event.before and event.now:
            self.words.pass_on(event.before, event.now, self.plane.kernel.now)
            self._look_at_place(event.before, event.now)
        elif event.ref.kind == "InferenceEnvironment" and event.before and event.now:
            self._look_at_grants(event.before, event.now)
        if event.now and event.ref.kind in COMPOSERS and _SECRET in event.now.wire:
            self._say(f"{event.ref} holds the value of a Secret")

    # -- what the clusters run
    def _look_at_running(self, event: Event) -> None:
        """Finds GPUs that two services on a cluster have, whatever their Objects describe now."""
        before, running = self._running.pop(event.ref, None), find_running(event.now)
        if event.now is None or running is None:
            return
        self._running[event.ref] = text(event.now.controller, "uid"), running
        if before is None or grows(before[1], running):
            self._check_running(running.pool)

    def _check_running(self, nodes: tuple[str, str]) -> None:
        """Adds up what the services on some nodes have.

        Not counted are those of placements that were deleted, which stop in their time, and those that are being
        deleted, or were composed again by a late call, beside another of the same placement (docs/reliability.md, Not
        promised).
        """
        alive = {v.uid for v in self.plane.all("ModelPlacement")}
        running = {
            ref: held
            for ref, (owner, held) in self._running.items()
            if held.pool == nodes and owner in alive and not self._is_replaced(ref)
        }
        count, each = self._pools[nodes]
        holdings = (Holding(held.nodes, held.gpus, held.replicas) for held in running.values())
        if not take_all(PoolCapacity(count, each), holdings):
            listed = ", ".join(f"{r.name} {h.replicas} x {h.nodes} x {h.gpus}" for r, h in sorted(running.items()))
            self._say(f"on {count} nodes of {each} GPUs of {nodes[0]} its cluster runs {listed}")

    def _is_replaced(self, ref: Ref) -> bool:
        there, owner = self.plane.server.latest.get(ref), self._running[ref][0]
        others = any(other != ref and whose == owner for other, (whose, _) in self._running.items())
        return others and (there is None or there.deleting or self.is_recreated(ref))

    # -- Objects
    def _look_at_object(self, event: Event) -> None:
        version = event.now or event.before
        assert version is not None
        kind = text(remote(version), "kind")
        if event.before is None and kind not in {"Namespace", "Node"}:
            self._look_at_quota(version)
        if (
            event.now
            and (event.before is None or remote(event.before) != remote(event.now))
            and is_endless(remote(version))
        ):
            self._say(f"{event.ref} holds a number that no API server takes")
        going = event.before is not None and not event.before.deleting and (event.now is None or event.now.deleting)
        if kind == "PersistentVolumeClaim":
            self._look_at_claim(version, going=going)
        elif kind == "Job" and event.now:
            self._look_at_job(event.now)
        elif kind == "LLMInferenceService":
            self._look_at_pods(event, going=going)
        if kind != "Secret" and event.now and _SECRET in event.now.wire:
            self._say(f"{event.ref} holds the value of a Secret")

    def _look_at_quota(self, made: Version) -> None:
        """Find what starts although its namespace has what it may have, and had it for long enough to be seen."""
        owner = self._owner(made)
        if owner is None or owner.uid in self._begun:
            return
        now = self._begun[owner.uid] = self.plane.kernel.now
        others = [
            v
            for v in self.plane.all("ModelPlacement")
            if v.ref.namespace == owner.ref.namespace and self._begun.get(v.uid, now) < now - SEEN_SECONDS
        ]
        counted = {v.uid for v in others}
        # A service that is being deleted beside its successor is charged once, as for the GPUs of a pool.
        services = ((uid, held) for ref, (uid, held) in self._services.items() if not self._makes_way(ref))
        gpus = sum(held_gpus(held) for uid, held in services if uid in counted)
        nodes, each, replicas = self.shape(owner)
        limits = self.limits
        if self._limited > now - SEEN_SECONDS:
            return
        if limits.invalid:
            self._say(f"{owner.ref} starts although nobody can tell its limits")
        edited = self._asked.get(owner.uid, -SEEN_SECONDS) > now - SEEN_SECONDS  # maybe after it was found to fit
        if limits.placements and len(others) >= limits.placements:
            self._say(f"{owner.ref} starts beside {len(others)} placements of {limits.placements}")
        more = nodes * each * replicas
        if limits.gpus and more and not edited and gpus + more > limits.gpus:
            self._say(f"{owner.ref} starts beside {gpus} GPUs of {limits.gpus}")

    def _look_at_claim(self, version: Version, *, going: bool) -> None:
        name = text(remote(version), "metadata.name")
        if name.startswith(OWN_CLAIM) and get(version.manifest, "spec.managementPolicies") != ["Observe"]:
            self._say(f"{version.ref} does more than observe a claim of a user's")
        if not going or not deletes(version.manifest):
            return
        place = (config(version), text(remote(version), "metadata.namespace"), name)
        if read := [str(r.ref) for r in self._readers(place) if not self._own_word(version)]:
            self._say(f"{version.ref} goes, and {', '.join(read)} reads it")

    def _own_word(self, version: Version) -> bool:
        """Tell whether a user deleted, by hand, what a thing belongs to, or what that belongs to."""
        owner = Ref(text(version.controller, "kind"), version.ref.namespace, text(version.controller, "name"))
        there = self.plane.server.latest.get(owner)
        above = there.controller if there else {}
        further = Ref(text(above, "kind"), version.ref.namespace, text(above, "name"))
        return not self.words.deleted.isdisjoint({owner, further, version.ref}) or there is None

    def _readers(self, place: tuple[str, str, str]) -> Iterable[Version]:
        """Yield the services that may run on a claim: of placements that are not being deleted."""
        for version in self._services_there():
            where = config(version), text(remote(version), "metadata.namespace")
            seen = mapping(version.manifest, "status.atProvider.manifest")
            uris = {uri for each in (remote(version), seen) for uri in list_read_uris(each)}
            if any((*where, parse_claim(uri)) == place for uri in uris) and self._stays(version):
                yield version

    def _services_there(self) -> list[Version]:
        return [v for v in self.plane.all("Object") if held_by(v.manifest)]

    def _stays(self, version: Version) -> bool:
        owner = self._owner(version)
        return not version.deleting and owner is not None and not owner.deleting

    def _owner(self, version: Version) -> Version | None:
        found = Ref("ModelPlacement", version.ref.namespace, text(version.controller, "name"))
        there = self.plane.server.latest.get(found)
        return there if there and there.uid == text(version.controller, "uid") else None

    def _look_at_job(self, version: Version) -> None:
        seen = mapping(version.manifest, "status.atProvider.manifest")
        is_known = text(condition(version.manifest, "Synced"), "status") == "True"
        if is_known and text(condition(seen, "Complete"), "status") == "True":
            template = mapping(remote(version), "spec.template.spec")
            (container,) = listing(template, "containers")
            source, directory = _texts(container.get("args"))
            volumes = [v for v in listing(template, "volumes") if v.get("name") == "weights"]
            (claim,) = [text(v, "persistentVolumeClaim.claimName") for v in volumes]
            path = f"pvc://{claim}/{directory.removeprefix('/mnt/models/')}"
            place = Directory(config(version), text(remote(version), "metadata.namespace"), path)
            self._filled[place] = source, inf

    # -- pods
    def _look_at_pods(self, event: Event, *, going: bool) -> None:
        version = event.now or event.before
        assert version is not None
        owner = self._owner(version)
        if going and owner and not owner.deleting and self._serves(version) and not self._may_make_way(owner, version):
            self._say(f"{event.ref} serves, and goes without a word")
        if event.now is None or event.now.deleting or owner is None or held_by(event.now.manifest) is None:
            return
        before = pods(remote(event.before)) if event.before else {}
        after = pods(remote(event.now))
        if before != after:
            self._look_at_bytes(event.now)
            if before and self._serves(event.now) and not self._may_change(owner, event):
                fields = sorted(key for key in {**before, **after} if before.get(key) != after.get(key))
                self._say(f"{event.ref} serves, and its {', '.join(fields)} change without a word")
            if before or not self.is_recreated(event.ref):
                self._changed[event.now.uid] = self.plane.kernel.now

    def _may_change(self, owner: Version, event: Event) -> bool:
        """Tells whether a user has asked for these pods, or for their shape or nodes, which follow in another write."""
        if event.now is not None and self._excused(owner, event.now.uid):
            return True
        shapes = [get(v.manifest, _PARALLELISM) for v in (event.before, event.now) if v]
        nodes = [get(v.manifest, _NODES) for v in (event.before, event.now) if v]
        reshaped = shapes[0] != shapes[-1] and (
            self._reshaped_by_word(owner) or self._gets_requested_shape(owner, event)
        )
        return reshaped or (nodes[0] != nodes[-1] and self._moved_by_word(owner))

    def _gets_requested_shape(self, owner: Version, event: Event) -> bool:
        """Tells whether a service gets the requested shape, for which fewer replicas may have made room, too."""
        deployment = Ref("ModelDeployment", owner.ref.namespace, text(owner.controller, "name"))
        requesting = self.plane.server.latest.get(deployment)
        model = Ref("ClusterModel", "", text(owner.manifest, "spec.modelRef.name"))
        if requesting is None or event.before is None or event.now is None or model not in self.plane.server.latest:
            return False
        before, now = held_by(event.before.manifest), held_by(event.now.manifest)
        requested = self.shape(requesting)[:2]
        return (
            before is not None and now is not None and (now.nodes, now.gpus) == requested != (before.nodes, before.gpus)
        )

    def _may_make_way(self, owner: Version, service: Version) -> bool:
        """Tell whether a service may go: for other pods, or for a shape that its placement got when there was room."""
        if self._excused(owner, service.uid):
            return True
        held = held_by(service.manifest)
        return held is not None and (held.nodes, held.gpus) != self.shape(owner)[:2] and self._reshaped_by_word(owner)

    def _reshaped_by_word(self, owner: Version) -> bool:
        """Tell whether a user has requested another shape since a placement last got one; marks it as granted."""
        if self.words.on_shape(owner) < self._reshaped.get(owner.uid, 0.0):
            return False
        self._reshaped[owner.uid] = self.plane.kernel.now
        return True

    def _moved_by_word(self, owner: Version) -> bool:
        """Tells whether a user has asked for what a place follows from since the nodes of a service last changed.

        More replicas, a second after another shape, need another pool than that shape did.
        """
        if self.words.on_place(owner) < self._moved.get(owner.uid, 0.0):
            return False
        self._moved[owner.uid] = self.plane.kernel.now
        return True

    def _excused(self, owner: Version, uid: str) -> bool:
        """Tell whether a user has changed these pods since their last writer may have seen it."""
        heard = self.words.on_pods(owner, self.plane.settings.passing_seconds)
        return heard >= self._changed.get(uid, 0.0) - self.plane.settings.passing_seconds

    def _serves(self, version: Version) -> bool:
        seen = mapping(version.manifest, "status.atProvider.manifest")
        return text(condition(seen, "Ready"), "status") == "True" and version.uid not in self.plane.provider.gone

    def _look_at_bytes(self, version: Version) -> None:
        """A service is written on bytes that are there, and are its model's and those of its adapters."""
        for served, uri in list_served(remote(version)):
            if not uri.startswith("pvc://") or parse_claim(uri).startswith(OWN_CLAIM):
                continue
            place = Directory(config(version), text(remote(version), "metadata.namespace"), uri)
            source, until = self._filled.get(place, ("", 0.0))
            unheard = until > 0 and config(version) in self.plane.provider.out
            if self.plane.kernel.now >= until and not unheard:
                self._say(f"{version.ref} is written on {uri}, which no download has filled")
            elif not source.removeprefix("hf://").startswith(served):
                self._say(f"{version.ref} serves {source} as {served}")

    # -- places
    def _look_at_grants(self, before: Version, now: Version) -> None:
        """What serves is admitted to all that it asks for and was granted, whatever becomes of its nodes.

        A shape that it does not run yet may lose its grant when a user gives the name of its pool to other nodes.
        """
        rows = [{read_row(row) for row in listing(v.manifest, "status.admitted")} for v in (before, now)]
        for row in rows[0] - rows[1]:
            self._admitted.pop(row, None)
        for row in rows[1] - rows[0]:
            self._admitted[row] = self.plane.kernel.now
        granted, left = read_grants(before), read_grants(now)
        for placement in self.plane.all("ModelPlacement") if granted != left else ():
            asked = self._asked.get(placement.uid, 0.0) + SEEN_SECONDS
            if placement.uid not in self._served or placement.deleting or self.plane.kernel.now < asked:
                continue
            nodes, gpus, replicas = self.shape(placement)
            shapes = {(held.nodes, held.gpus) for uid, held in self._services.values() if uid == placement.uid}
            may_be_refused = self.words.on_place(placement) + SEEN_SECONDS > self.plane.kernel.now
            if (nodes, gpus) not in shapes and (may_be_refused or self.limits.has_limits):
                continue  # it keeps the shape in which it serves
            grant = placement.uid, Share(pool="", nodes=nodes, gpus_per_node=gpus, replicas=0)
            if left.get(grant, 0) < min(granted.get(grant, 0), replicas):
                self._say(f"{placement.ref} serves, and {now.ref} admits {left.get(grant, 0)} of {replicas} replicas")

    def _look_at_place(self, before: Version, now: Version) -> None:
        asked = [
            k for k in (*_PLACE, "replicas") if get(before.manifest, f"spec.{k}") != get(now.manifest, f"spec.{k}")
        ]
        moved = [key for key in asked if key in _PLACE]
        if asked:
            self._asked[now.uid] = self.plane.kernel.now
        if not moved:
            return
        # The last writer may have begun before the word, and written after it.
        passing = self.plane.settings.passing_seconds
        heard = self.words.on_place(now) >= self._changed.get(f"place {now.uid}", 0.0) - passing
        self._moves[now.uid] = 1 if heard else self._moves[now.uid] + 1
        if before.uid in self._served and not heard and self.is_admitted(before):
            self._say(f"{now.ref} serves, and its {', '.join(moved)} change without a word")
        if self._moves[now.uid] == MOST_MOVES:
            self._say(f"{now.ref} is decided again and again: its {', '.join(moved)} change")
        self._changed[f"place {now.uid}"] = self.plane.kernel.now

    def is_admitted(self, placement: Version) -> bool:
        """Tells whether a placement was admitted as it stands for long enough that its deployment has heard of it.

        One that was not may be decided again: others took the room for which it was decided.
        """
        admitted = self._admitted.get(find_row(placement))
        return admitted is not None and admitted < self.plane.kernel.now - self._unheard

    @property
    def _unheard(self) -> float:
        return self.plane.settings.unheard_seconds

    def shape(self, asking: Version) -> tuple[int, int, int]:
        model = self.plane.server.latest.get(Ref("ClusterModel", "", text(asking.manifest, "spec.modelRef.name")))
        vram = text(model.manifest, "spec.resources.vram") if model else ""
        if asking.ref.kind == "ModelPlacement" or not vram:
            return super().shape(asking)
        gpus = -(-int(vram.removesuffix("Gi")) // GPU_GIB)
        wanted = integer(asking.manifest, "spec.scaling.fixed.replicas", 1)
        # As the engines split attention heads: the next power of two in a node, whole nodes beyond it.
        return (1, 1 << (gpus - 1).bit_length(), wanted) if gpus <= fleet.GPUS else (-(-gpus // fleet.GPUS), 8, wanted)

    # -- at rest
    def at_rest(self) -> None:
        """Find who waits although there is room, who has two services, and who says too little."""
        self._recreated.clear()
        for nodes in self._pools:
            self._check_running(nodes)
        self._look_at_waiting()
        for ref, version in self.plane.server.latest.items():
            said = {text(c, "type") for c in listing(version.manifest, "status.conditions")}
            if ref.kind in COMPOSERS and not said >= {*OWNED[ref.kind]} - OPTIONAL:
                self._say(f"{ref} lacks conditions: {sorted(said)}")
        self._look_for_orphans()
        for there in self.plane.all("InferenceEnvironment"):
            held = listing(there.manifest, "status.admitted") or get(there.manifest, "spec.cluster.gke")  # see cloud.py
            if _reason(there, "PoolsValid") == "PoolInUse" and not held:
                self._say(f"{there.ref} refuses a pool, and nothing has GPUs there")
        for left, version in self.plane.provider.deletions.find_left():
            self._say(f"{left.kind} {left.namespace}/{left.name} is left on {left.cluster}, of {version.ref}")
        self._traffic.at_rest()
        self._rollouts.at_rest()
        self._lending.at_rest()
        owners = [(text(v.controller, "uid"), v) for v in self._services_there() if not v.deleting]
        for uid, version in owners:
            if sum(other == uid for other, _ in owners) > 1 and self._owner(version) and self._serves(version):
                twins = [v for other, v in owners if other == uid]
                if all(map(self._serves, twins)):
                    self._say(f"{version.ref} is one of two services of one placement at rest")

    def _look_for_orphans(self) -> None:
        """Find what a composite controls and does not list; what a user hid from list and label goes with its owner."""
        for ref, version in self.plane.server.latest.items():
            owner = Ref(text(version.controller, "kind"), ref.namespace, text(version.controller, "name"))
            there = self.plane.server.latest.get(owner)
            is_composed = owner.kind in COMPOSERS and there and there.uid == text(version.controller, "uid")
            if there is None or not is_composed or version.deleting:
                continue
            idle = ref.kind == "ModelPlacement" and not listing(version.manifest, LIST)  # not composed by us
            hidden = (
                owner in self.words.wiped or version.uid in self.words.hidden
            ) and LABEL_OWNER not in version.labels
            if not lists(there, ref) and not idle and not hidden:
                self._say(f"{ref} is of {owner}, which does not know of it")

    def _look_at_waiting(self) -> None:
        for deployment in self._plane.all("ModelDeployment"):
            placed = {text(v.manifest, "spec.inferenceEnvironmentRef.name") for v in self._of(deployment)}
            latest = self.plane.server.latest
            places = [latest.get(Ref("InferenceEnvironment", "", name)) for name in placed]
            placed -= {place.ref.name for place in places if place and is_tainted(place, deployment, "NoExecute")}
            readable = text(condition(deployment.manifest, "ModelResolved"), "status") == "True"
            named = get(deployment.manifest, "spec.modelCache.name")
            missing = count_missing(deployment, self._of(deployment))
            is_short = len(placed) < count_usable_environments(deployment) and missing != 0
            if readable and not named and is_short and (missing is None or missing > 0):
                self._waiting(deployment, placed)
            if readable and not named:
                self._look_at_growth(deployment)
        for placement in self._plane.all("ModelPlacement"):
            resolved = _reason(placement, "ReferencesResolved") == "Resolved"
            if _reason(placement, "Admitted") in _WAITS and resolved and not placement.deleting:
                environment = text(placement.manifest, "spec.inferenceEnvironmentRef.name")
                if self.find_room(environment, placement, placement):
                    self._say(f"{placement.ref} waits beside room")
            self._look_at_stuck(placement)

    def _look_at_growth(self, deployment: Version) -> None:
        """Finds a deployment that serves and does not get the shape or the replicas that it asks for beside room.

        Only what others hold stands in its way: not what they wait for. More replicas of the same shape need room in
        the pool where it is.
        """
        there = self._of(deployment)
        nodes, gpus, replicas = self.shape(deployment)
        selected = strings(deployment.manifest, "spec.environmentSelector.matchLabels")
        if len(there) > count_usable_environments(deployment):
            return
        missing = count_missing(deployment, there)
        for placement in there:
            has, name = self.shape(placement), text(placement.manifest, "spec.inferenceEnvironmentRef.name")
            environment = self.plane.server.latest.get(Ref("InferenceEnvironment", "", name))
            grown = has[:2] == (nodes, gpus) and has[2] >= replicas
            if missing is not None:  # replicas that are divided change their shape one environment at a time
                grown = missing <= 0 or has[:2] != (nodes, gpus)
            if placement.uid not in self._served or environment is None or grown:
                continue
            refused = [
                text(row, "reason")
                for row in listing(deployment.manifest, "status.unplaced")
                if row["environment"] == name
            ]
            admitted = selected.items() <= environment.labels.items() and not has_refused_pool(placement, environment)
            pool = text(placement.manifest, "spec.pool") if has[:2] == (nodes, gpus) else ""
            beyond = has[2] if pool else None  # a placement that grows gets what fits
            if (
                admitted
                and {*refused} <= _FOR_WANT_OF_ROOM
                and self.find_room(name, deployment, placement, pool, beyond)
            ):
                wanted = nodes, gpus, replicas
                self._say(f"{placement.ref} has {has}, {deployment.ref} asks for {wanted}, and {name} has room")

    def _look_at_stuck(self, placement: Version) -> None:
        """Find what is admitted and has no service although nothing stands in its way."""
        admitted = _reason(placement, "Admitted") == "Admitted" and not placement.deleting
        services = [v for v in self._services_there() if text(v.controller, "uid") == placement.uid]
        stored = text(condition(placement.manifest, "StorageReady"), "status") == "True"
        if admitted and stored and not services and _reason(placement, "ReferencesResolved") == "Resolved":
            self._say(f"{placement.ref} is admitted and has its weights, and no service")

    def find_room(
        self,
        environment: str,
        asking: Version,
        placement: Version | None = None,
        only: str = "",
        beyond: int | None = None,
        most: Mapping[str, int] | None = None,
    ) -> bool:
        """Tells whether a pool that suits has room for what a deployment or a placement asks for.

        `placement` is the one that would have it, if it exists: what it holds itself takes no room from it. `only` is
        the name of the one pool that counts, if not all do. `beyond`: one replica more than this is enough. `most`: how
        many replicas of other placements count at most, by uid.
        """
        there = self.plane.server.latest.get(Ref("InferenceEnvironment", "", environment))
        model = self.plane.server.latest.get(Ref("ClusterModel", "", text(asking.manifest, "spec.modelRef.name")))
        if there is None or there.deleting or model is None:
            return False
        if text(condition(there.manifest, "Ready"), "status") != "True":
            return False
        is_new = asking.ref.kind == "ModelDeployment"  # a placement that waits may start in spite of a taint
        if is_new and is_tainted(there, asking):
            return False
        nodes, gpus, replicas = self.shape(asking)
        if not self._within_quota(asking.ref.namespace, nodes * gpus * replicas):
            return False
        alive, lost = {v.uid: v for v in self.plane.all("ModelPlacement")}, self.plane.nodes.unusable(environment)
        most = {**(most or {}), **({placement.uid: 0} if placement else {})}
        rooms = [
            room_beside(there, pool, alive, self._services.values(), lost, most)
            for pool in list_counted_pools(there)
            if suits_pool(asking, model, pool)
            and not (is_new and flag(pool, "unschedulable"))
            and only in {"", text(pool, "name")}
        ]
        if beyond is None:
            beyond = replicas - 1 if count_missing(asking, ()) is None else 0
        return any(room.count_fitting_replicas(nodes, gpus, replicas) > max(0, beyond) for room in rooms if replicas)

    def _within_quota(self, namespace: str, wanted: int) -> bool:
        """Tell whether a namespace may take so many GPUs beside all that it has and asks for."""
        there = [v for v in self.plane.all("ModelPlacement") if v.ref.namespace == namespace]
        asked = {v.uid: prod(self.shape(v)) for v in there}
        for uid, held in self._services.values():  # a service keeps its shape while the next one has no weights
            if uid in asked:
                asked[uid] = max(asked[uid], held_gpus(held))
        gpus = wanted + sum(asked.values())
        if self.limits.invalid or self.limits.cost:
            return False  # nothing is claimed of what a call may not know, or of prices
        many = self.limits.placements and len(there) >= self.limits.placements
        return not many and not (self.limits.gpus and gpus > self.limits.gpus)


def _reason(version: Version, type_: str) -> str:
    return text(condition(version.manifest, type_), "reason")


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
