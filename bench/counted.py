"""What bench/instructions.py counts: decisions over a fixed small world, each in a process of its own.

100 environments with two placements each, and calls of the kinds at rest (see decide.py), made as Crossplane makes
them. Everything is imported and every call is made once before a child is forked, which therefore does nothing but
compose; one that does nothing at all stands for what all have in common. The collector is off: when it runs depends on
everything that was ever made.
"""

import gc
import json
import os
import sys
from dataclasses import replace

from bench.fleet import CACHE, DEPLOYMENT, ENVIRONMENTS, MODEL, TOO_LARGE, environment, placement, served
from function.cli.composing import reconcile
from function.cli.store import Store
from function.composers import compose
from function.contract import Call, RequiredResource
from function.kube.manifests import Manifest

SIZE = 100
# How many calls each scene makes.
CALLS = {
    "ModelDeployment": 10,
    "nothing fits": 10,
    "InferenceEnvironment": 10,
    "ModelPlacement": 10,
    "ModelCache": 10,
    "ModelDeployment, cold": 1,
}


def _store() -> Store:
    store = Store()
    placements = (placement(n + lap * ENVIRONMENTS) for n in range(SIZE) for lap in (0, 1))
    for manifest in (MODEL, CACHE, *map(environment, range(SIZE)), *placements, served()):
        store.put(manifest)
    return store


def _new(call: Call) -> Call:
    """Return a call whose items no memory knows."""
    answers = {
        name: tuple(RequiredResource(b"new " + item.digest, item.load) for item in items)
        for name, items in call.answers.items()
    }
    return replace(call, answers=answers)


def _child(call: Call, times: int) -> int:
    """Make the calls in a process of their own; return its id, which callgrind names its file after."""
    child = os.fork()
    if child == 0:
        for _ in range(times):
            compose(call)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"a child ended with {status}")
    return child


def main() -> None:
    """Run each and say under which process id; the one without a name makes no call."""
    store = _store()

    def call(xr: Manifest) -> Call:
        return reconcile(store, xr)[0]

    deployment = call(DEPLOYMENT)
    scenes = {
        "ModelDeployment": deployment,
        "nothing fits": call(TOO_LARGE),
        "InferenceEnvironment": call(environment(1)),
        "ModelPlacement": call(served()),
        "ModelCache": call(CACHE),
        "ModelDeployment, cold": _new(deployment),
    }
    gc.collect()
    gc.freeze()
    gc.disable()
    children = {"": _child(deployment, 0), **{name: _child(scene, CALLS[name]) for name, scene in scenes.items()}}
    json.dump(children, sys.stdout)


if __name__ == "__main__":
    main()
