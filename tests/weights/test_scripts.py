"""The ConfigMap with the scripts is there for as long as a pod of a download may mount it, and no longer."""

import pytest

from function.domain.cache import CacheChoice, ManagedCache
from function.domain.model import HuggingFaceSource
from function.kube.manifests import Manifest, get, listing, mapping
from function.remote.object_writer import ManagementPolicy
from function.status.weights import sentence
from function.weights.scripts import DOWNLOAD, SCRIPTS
from function.weights.state import Finding
from tests.support.remote_scene import put
from tests.weights.requests import SECRET, model
from tests.weights.test_reconcile_weights import (
    ALL_KEPT,
    COMPLETE,
    DESCRIBED,
    FAILED,
    RETAINED,
    RUNS,
    Observed,
    asked,
    begun,
    gone,
    job,
    lives,
    said,
    weighed,
)


def test_a_refused_config_map_is_reported_as_what_the_pods_wait_for() -> None:
    message = 'configmaps is forbidden: User "modelplane" cannot create resource "configmaps"'
    request = asked()
    found = weighed(request, begun(request, job(RUNS), said("scripts-", message)))
    assert lives(found.composed) == ALL_KEPT
    assert (found.state.finding, found.state.said) == (Finding.SCRIPTS_REFUSED, message)
    assert message in sentence(found.state)


def in_the_command(found: Observed) -> None:
    """Let the Job be as releases wrote it that had the script in its command, and no ConfigMap."""
    gone("scripts-")(found)
    for key in [key for key in found if key.startswith("job-")]:
        pod = mapping(found[key], f"{DESCRIBED}.spec.template.spec")
        pod["volumes"] = [volume for volume in listing(pod, "volumes") if volume["name"] != "scripts"]
        for container in listing(pod, "containers"):
            container["command"] = ["python3", "-c", "print()"]
            mounts = listing(container, "volumeMounts")
            container["volumeMounts"] = [mount for mount in mounts if mount["name"] != "scripts"]
        put(found[key], f"{DESCRIBED}.metadata.name", "another-name")
        found[f"{key}-of-another-name"] = found.pop(key)


@pytest.mark.parametrize("choice", [RETAINED, ManagedCache()], ids=["retained", "own"])
@pytest.mark.parametrize(
    ("status", "again"), [(RUNS, False), (COMPLETE, False), (FAILED, True)], ids=["runs", "complete", "failed"]
)
def test_a_job_with_the_script_in_its_command_is_followed_by_another_only_where_it_failed(
    choice: CacheChoice, status: Manifest, again: bool
) -> None:
    observed = begun(asked(choice), job(status), in_the_command)
    found = weighed(asked(choice), observed)
    jobs, scripts = ({key for key in found.composed if key.startswith(each)} for each in ("job-", "scripts-"))
    assert (jobs.isdisjoint(observed), bool(scripts)) == (again, again)


@pytest.mark.parametrize(
    ("status", "then"),
    [(RUNS, [ManagementPolicy.RETAIN]), (FAILED, [ManagementPolicy.RETAIN, ManagementPolicy.FULL])],
    ids=["runs", "failed"],
)
def test_scripts_of_an_earlier_release_stay_while_its_job_runs(
    monkeypatch: pytest.MonkeyPatch, status: Manifest, then: list[ManagementPolicy]
) -> None:
    """The Job of today, with the scripts of today, follows only where the earlier one failed."""
    before = begun(asked(), job(status))
    monkeypatch.setitem(SCRIPTS, DOWNLOAD, "another release's")
    composed = weighed(asked(), before).composed
    policies = {key: get(item.manifest, "spec.managementPolicies") for key, item in composed.items()}
    assert sorted(map(str, (policies[key] for key in composed if key.startswith("scripts-")))) == sorted(
        str([*lifetime.value]) for lifetime in then
    )


@pytest.mark.parametrize(
    ("status", "stays"), [(RUNS, True), (FAILED, False), (COMPLETE, False)], ids=["runs", "failed", "complete"]
)
def test_scripts_for_other_bytes_stay_while_their_job_runs(status: Manifest, stays: bool) -> None:
    before = begun(asked(ManagedCache()), job(status))
    other = HuggingFaceSource(repo="moonshotai/Kimi-K2-Instruct", revision="v2", secret=SECRET)
    found = weighed(asked(ManagedCache(), model=model(other)), before)
    assert any(key.startswith("scripts-") for key in found.stale) is stays
    assert {key for key in before if key.startswith(("claim-", "job-"))} <= found.stale.keys()
