"""All levers, in the order in which they act in a cycle. A new lever is its own file and a line here."""

from __future__ import annotations

from tesched_core.fields.begin_time import BEGIN_TIME_RULE
from tesched_core.fields.contract import Lever
from tesched_core.fields.hold import HOLD_RULE
from tesched_core.fields.left_held import LEFT_HELD_RULE
from tesched_core.fields.mark import MARK_RULE
from tesched_core.fields.nice_rule import NICE_RULE
from tesched_core.fields.node_binding import NODE_BINDING_RULE
from tesched_core.fields.throttle import THROTTLE_RULE
from tesched_core.orders.notice import NOTICE_LEVER
from tesched_core.orders.requeue import REQUEUE_LEVER
from tesched_core.orders.suspend import SUSPEND_LEVER

LEVERS: tuple[Lever, ...] = (
    NOTICE_LEVER,
    # before the rule of what is left held: a victim that was requeued while it was suspended is held
    SUSPEND_LEVER,
    REQUEUE_LEVER,
    LEFT_HELD_RULE,
    NICE_RULE,
    BEGIN_TIME_RULE,
    HOLD_RULE,
    THROTTLE_RULE,
    NODE_BINDING_RULE,
    MARK_RULE,
)
