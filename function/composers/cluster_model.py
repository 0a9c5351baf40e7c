"""ClusterModel and Model: validated and described; nothing is composed and nothing required."""

from function.api.cluster_model import parse_model
from function.api.problems import Parsed
from function.contract import Call, Outcome, Requirement
from function.domain.model import Model
from function.domain.settings import Settings
from function.reasons import ConditionType, ModelValid
from function.status import cluster_model as report
from function.status.conditions import faulty


def read(call: Call, settings: Settings) -> Parsed[Model | None]:
    return parse_model(call.xr, settings)


def require(_: Call, __: Parsed[Model | None], ___: Settings) -> dict[str, Requirement]:
    return {}


def compose(_: Call, parsed: Parsed[Model | None], settings: Settings) -> Outcome:
    if parsed.value is None:
        invalid = faulty(ConditionType.MODEL_VALID, ModelValid.INVALID_SOURCE, parsed.problems)
        return Outcome(conditions=(invalid,), ttl_seconds=settings.ttl_settled)
    return Outcome(
        status=report.build_status(parsed.value),
        conditions=(report.build_model_valid(parsed.value),),
        ttl_seconds=settings.ttl_settled,
    )
