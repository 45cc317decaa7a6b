"""The steps of the host chain: each turns a NodePlan into wanted settings.

    names       the port of each rail is called railN
    addresses   MTU, up, one address for each IP version
    routing     a table, a rule and routes for each rail, the fence, the per-interface switches
    limits      neighbour tables large enough

A step is a module with `STEP`, its name, and `settings(node)`, a pure function. A new step is one module and one line
in `STEPS`, in the order of `setting.STEPS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from trackbed.chain import addresses, limits, names, routing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from trackbed.chain.setting import Setting
    from trackbed.plan.plan import NodePlan


class Step(Protocol):
    """What a module of this package offers."""

    STEP: str

    def settings(self, node: NodePlan) -> Iterator[Setting]:
        """What the step wants on `node`, in the order in which it must be set."""


STEPS: tuple[Step, ...] = (names, addresses, routing, limits)
"""The steps there are, cause before effect."""


def settings(node: NodePlan, steps: Collection[str] | None = None) -> tuple[Setting, ...]:
    """All wanted settings of a node in the order in which they must be set; of some steps only, if named."""
    chosen = [step for step in STEPS if steps is None or step.STEP in steps]
    return tuple(setting for step in chosen for setting in step.settings(node))
