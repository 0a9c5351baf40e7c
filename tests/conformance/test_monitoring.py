"""The alerts under install/monitoring are valid rules that fire when they should, by Prometheus' own promtool."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from function.capacity.ledger import MAX_ADMITTED
from function.kube.manifests import Manifest, listing, mapping, text
from function.metrics import Metrics
from tools import debian
from tools.documents import document
from tools.programs import ROOT

pytestmark = pytest.mark.conformance
MONITORING = ROOT / "install" / "monitoring"
CASES = Path(__file__).with_name("alerts.yaml")
ALERTS = document(MONITORING / "alerts.yaml")
RULES = [rule for group in listing(ALERTS, "spec.groups") for rule in listing(group, "rules")]
RAISED = [rule for rule in RULES if "alert" in rule]
RECORDED = {text(rule, "record") for rule in RULES if "record" in rule}


def _promtool(*arguments: str) -> str:
    program = debian.path("prometheus").with_name("promtool")
    done = subprocess.run((str(program), *arguments), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump(ALERTS["spec"]))
    assert f"{len(RULES)} rules found" in _promtool("check", "rules", str(rules))
    cases = tmp_path / "cases.yaml"
    cases.write_text(yaml.safe_dump(document(CASES)))
    assert "SUCCESS" in _promtool("test", "rules", str(cases))


def test_every_alert_is_shown_to_fire() -> None:
    fired = {
        text(check, "alertname")
        for case in listing(document(CASES), "tests")
        for check in listing(case, "alert_rule_test")
        if check["exp_alerts"]
    }
    assert {text(rule, "alert") for rule in RAISED} == fired


def test_a_ledger_is_nearly_full_at_nine_tenths() -> None:
    (rule,) = (rule for rule in RAISED if rule["alert"] == "InferenceEnvironmentLedgerFull")
    assert text(rule, "expr").endswith(f">= {MAX_ADMITTED * 9 // 10}")
    assert f"at most {MAX_ADMITTED} " in text(rule, "annotations.summary")


def test_alerts_and_dashboard_ask_for_metrics_that_exist() -> None:
    panels: list[Manifest] = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    queries = [text(rule, "expr") for rule in RULES]
    queries += [text(target, "expr") for panel in panels for target in listing(panel, "targets")]
    asked = set(re.findall(r"\bmodelplane_\w+", " ".join(queries)))
    assert set(re.findall(r"\bmodelplane:[\w:]+", " ".join(queries))) == RECORDED
    resources = listing(document(MONITORING / "kube-state-metrics.yaml"), "spec.resources")
    kept = {f"modelplane_{text(metric, 'name')}" for resource in resources for metric in listing(resource, "metrics")}
    counted = {sample for family in Metrics().registry.collect() for sample in (family.name, *_suffixed(family.name))}
    assert asked <= kept | counted
    assert kept - asked == {f"modelplane_{word}" for word in UNASKED}


# For questions of one's own.
UNASKED = (*("deployment_environments_ready", "cache_environments_desired", "cache_environments_ready"),)


def _suffixed(name: str) -> list[str]:
    return [f"{name}_{suffix}" for suffix in ("total", "count", "sum", "bucket")]


def test_kube_state_metrics_may_read_what_it_is_told_to() -> None:
    role, _ = yaml.safe_load_all((MONITORING / "rbac.yaml").read_text())
    granted = {(group, kind) for rule in role["rules"] for group in rule["apiGroups"] for kind in rule["resources"]}
    resources = listing(document(MONITORING / "kube-state-metrics.yaml"), "spec.resources")
    read = {(text(r, "groupVersionKind.group"), f"{text(r, 'groupVersionKind.kind').lower()}s") for r in resources}
    assert granted == read | {("apiextensions.k8s.io", "customresourcedefinitions")}
    assert all(mapping(resource, "labelsFromPath") for resource in resources)
