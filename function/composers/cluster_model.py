"""ClusterModel and Model: validate what is to be served and show its size. Nothing is composed."""

from function.api.cluster_model import parse_model
from function.contract import Call, Outcome
from function.domain.settings import Settings
from function.reasons import ConditionType, ModelValid
from function.status import cluster_model as report
from function.status.conditions import faulty


def compose(call: Call, settings: Settings) -> Outcome:
    model = parse_model(call.xr, settings)
    if model.value is None:
        invalid = faulty(ConditionType.MODEL_VALID, ModelValid.INVALID_SOURCE, model.problems)
        return Outcome(conditions=(invalid,), ttl_seconds=settings.ttl_settled)
    return Outcome(
        status=report.build_status(model.value),
        conditions=(report.build_model_valid(model.value),),
        ttl_seconds=settings.ttl_settled,
    )
