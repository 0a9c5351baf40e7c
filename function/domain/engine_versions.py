"""What an engine can do, by its version (`EngineSpec.abilities`).

The version is `engine.version`, else that of the image's tag where the image's own name contains the engine's (llm-d's
images, for example, have versions of their own). An engine without either counts as the newest, and ModelValid says so.
"""

import re
from collections.abc import Mapping

from function.domain.engine_spec import ENGINES, Ability, Version
from function.domain.model import Engine, EngineName

_VERSION = r"v?(?P<major>[0-9])\.(?P<minor>[0-9]{1,4})(?:\.(?P<patch>[0-9]{1,4}))?(?![0-9])"
_TAGS: Mapping[EngineName, re.Pattern[str]] = {
    name: re.compile(rf"(?:^|/)[^/:@]*{name.lower()}[^/:@]*:{_VERSION}", re.ASCII) for name in EngineName
}
_GIVEN = re.compile(_VERSION, re.ASCII)


def version(engine: Engine) -> Version | None:
    """Returns the version; None where neither a field nor a tag says it."""
    match = _GIVEN.fullmatch(engine.version) if engine.version else _TAGS[engine.name].search(engine.image)
    return (int(match["major"]), int(match["minor"]), int(match["patch"] or 0)) if match else None


def is_stock(engine: Engine) -> bool:
    """Tells whether the image is the engine's own, from whichever registry."""
    repository = re.sub(r"(:[^/@]*)?(@.*)?$", "", engine.image)
    return f"/{repository}".endswith(f"/{ENGINES[engine.name].stock_image}")


def can(engine: Engine, ability: Ability) -> bool:
    """Tells whether the engine of this image has an ability; an unknown version counts as the newest."""
    span = ENGINES[engine.name].abilities[ability]
    if span.stock_only and not is_stock(engine):
        return True
    known = version(engine)
    return span.until is None if known is None else span.since <= known and (span.until is None or known < span.until)


def get_first_version(engine: Engine, ability: Ability) -> str:
    """Returns the first version with an ability, as people write it."""
    return _format(ENGINES[engine.name].abilities[ability].since)


def get_end_version(engine: Engine, ability: Ability) -> str:
    """Returns the first version that has lost an ability, as people write it; empty: none has."""
    until = ENGINES[engine.name].abilities[ability].until
    return _format(until) if until else ""


def _format(version: Version) -> str:
    return ".".join(map(str, version))
