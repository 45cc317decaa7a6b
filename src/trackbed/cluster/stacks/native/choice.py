"""The annotation trackbed.dev/rails in CEL: what it may say, which rails that is, what a wrong one is told.

    all         every rail of the fabric
    3           the first three: 0, 1, 2
    0,2,4       these; different ones, in any order
    none        no rail, where the namespace's default would give some

A value may be hostile: its length is looked at before anything that costs more for a longer one, and only short, plain
text of it is repeated. Kubernetes counts the cost of an expression and refuses the pod when it has had enough.
"""

from __future__ import annotations

from trackbed.fabric.plan.plan import Plan

ANNOTATION = "trackbed.dev/rails"
NONE = "none"
LONGEST_SHOWN = 40
"""Characters of a wrong value that are repeated to the user."""

HAS = f"'{ANNOTATION}' in object.metadata.?annotations.orValue({{}})"
"""Whether an object has the annotation."""
OWN = f"object.metadata.annotations['{ANNOTATION}']"
"""Its value."""


def numbers(plan: Plan) -> str:
    """All rails of the fabric, as a list."""
    return f"[{', '.join(str(rail.rail) for rail in plan.common.rails)}]"


def is_sound(plan: Plan) -> str:
    """Whether variables.asked may say what it says."""
    count = len(plan.common.rails)
    return f"""\
variables.asked in ['all', '{NONE}']
|| size(variables.asked) <= {3 * count} && (
  variables.asked.matches('^[1-9][0-9]?$') && int(variables.asked) <= {count}
  || variables.asked.matches('^(0|[1-9][0-9]?)(,(0|[1-9][0-9]?))+$')
  && variables.asked.split(',').all(one, int(one) < {count})
  && variables.asked.split(',').distinct().size() == variables.asked.split(',').size()
)
"""


RAILS = f"""\
!variables.sound || variables.asked == '{NONE}' ? []
: variables.asked == 'all' ? variables.all
: variables.asked.contains(',') ? variables.all.filter(rail, string(rail) in variables.asked.split(','))
: variables.all.filter(rail, rail < int(variables.asked))
"""
"""The rails that variables.asked names, in order; none if it is not sound: the pod is refused then."""


def complaint(plan: Plan) -> str:
    """What to say of a value that is not sound, as an expression."""
    head = f"annotation {ANNOTATION} is "
    return f"""\
{_text(head)} + (
  size(variables.asked) <= {LONGEST_SHOWN} && variables.asked.matches('^[ -~]*$')
  ? strings.quote(variables.asked) : 'too long or no plain text'
) + {_text(allowed(plan))}
"""


def allowed(plan: Plan) -> str:
    """What may be written, in words."""
    count = len(plan.common.rails)
    if count == 1:
        return f"; write all, 1 or {NONE}: fabric {plan.common.fabric} has rail 0 only"
    some = "0,2" if count > 2 else "0,1"  # noqa: PLR2004 - rail 2 is the third
    return (
        f"; write all, {NONE}, how many from 1 to {count} (2 is rails 0 and 1), or which, different ones with commas "
        f"and no blanks ({some}): fabric {plan.common.fabric} has rails 0 to {count - 1}"
    )


def _text(value: str) -> str:
    """A literal of CEL; ours have neither quotes nor backslashes."""
    return f"'{value}'"
