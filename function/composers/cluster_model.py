"""ClusterModel and Model: validated and described; nothing is composed and nothing required."""

from function.api.cluster_model import parse_model
from function.contract import Call, Outcome
from function.domain.settings import Settings
from function.reasons import ConditionType, ModelValid
from function.status import cluster_model as report
from function.status.conditions import faulty


def compose(call: Call, settings: Settings) -> Outcome:
    parsed = parse_model(call.xr, settings)
    if parsed.value is None:
        invalid = faulty(ConditionType.MODEL_VALID, ModelValid.INVALID_SOURCE, parsed.problems)
        return Outcome(conditions=(invalid,), ttl_seconds=settings.ttl_settled)
    return Outcome(
        status=report.build_status(parsed.value),
        conditions=(report.build_model_valid(parsed.value),),
        ttl_seconds=settings.ttl_settled,
    )
