"""A RunFunctionRequest becomes a `Call`.

Protobuf knows only floats, so whole ones become integers again, at every depth. Maps arrive in random
order, so their keys are sorted: what is read from a manifest never depends on the wire. What was required
stays unread until someone asks: reading 3,000 items costs ten times what receiving them does, telling that
they are unchanged a fraction of it. Nothing here logs: observed resources may hold the copy of a Secret.
"""

from function.contract import Call, Pause, noop
from function.wire.items import Identify, by_content
from function.wire.split import Received
from function.wire.structs import manifest


def read(received: Received, identify: Identify = by_content, pause: Pause = noop) -> Call:
    """Return the call that Crossplane makes; a requirement without an answer is left out of `answers`."""
    request = received.rest
    observed = request.observed.resources
    return Call(
        xr=manifest(request.observed.composite.resource),
        # Indexing a protobuf map creates what is missing, hence only names that it lists itself.
        observed={name: manifest(observed[name].resource) for name in sorted(observed)},
        desired_by_earlier_steps=frozenset(request.desired.resources),
        answers={name: identify(items, pause) for name, items in received.required.items()},
        input=manifest(request.input),
        context=manifest(request.context),
        pause=pause,
    )
