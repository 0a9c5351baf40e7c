"""The ConfigMap with the scripts is there for as long as a pod of a download may mount it, and no longer."""

import pytest

from function.domain.cache import CacheChoice, ManagedCache
from function.kube.manifests import Manifest, get, listing, mapping
from function.observe.weights import Finding
from function.report.weights import sentence
from function.storage.scripts import DOWNLOAD, SCRIPTS
from tests.lifecycle.scene import put
from tests.lifecycle.test_weigh import (
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
    seen,
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


def test_scripts_of_an_earlier_release_stay_until_the_weights_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    before = begun(asked(), job(FAILED))
    monkeypatch.setitem(SCRIPTS, DOWNLOAD, "another release's")
    found = weighed(asked(), before)
    scripts = {key for key in found.composed if key.startswith("scripts-")}
    assert len(scripts) == 2
    assert scripts & before.keys(), "a pod of the earlier Job may still mount it"
    observed = {**before, **seen(found.composed)}
    assert found.plan
    assert found.plan.job
    put(observed[f"job-{found.plan.job.name}"], "status.atProvider.manifest.status", COMPLETE)
    done = weighed(asked(), observed)
    assert {
        key for key, item in done.composed.items() if get(item.manifest, "spec.managementPolicies") == ["*"]
    } > scripts
