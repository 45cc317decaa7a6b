"""CEL expressions that validate and parse the annotation trackbed.dev/rails.

    all         every rail of the fabric
    3           the first three rails: 0, 1, 2
    0,2,4       rails by number, in any order, without duplicates
    none        no rail; overrides the namespace's default

Values are untrusted. The length is checked before any test whose cost grows with it, and a value is quoted in a message
only if it is short printable ASCII. Kubernetes limits the cost of an expression and refuses the pod above the limit.
"""

from trackbed.fabric.plan.plan import Plan

ANNOTATION = "trackbed.dev/rails"
NO_RAILS = "none"
MAX_QUOTED_CHARACTERS = 40
"""Largest number of characters of an invalid value that the message quotes."""

HAS_ANNOTATION = f"'{ANNOTATION}' in object.metadata.?annotations.orValue({{}})"
"""CEL expression for whether an object has the annotation."""
ANNOTATION_VALUE = f"object.metadata.annotations['{ANNOTATION}']"
"""CEL expression for the value of the annotation."""


def render_all_rails(plan: Plan) -> str:
    """Return the numbers of all rails of the fabric as a CEL list."""
    return f"[{', '.join(str(rail.rail) for rail in plan.common.rails)}]"


def render_validity_test(plan: Plan) -> str:
    """Return a CEL expression for whether `variables.asked`, the value of the annotation, is valid."""
    count = len(plan.common.rails)
    return f"""\
variables.asked in ['all', '{NO_RAILS}']
|| size(variables.asked) <= {3 * count} && (
  variables.asked.matches('^[1-9][0-9]?$') && int(variables.asked) <= {count}
  || variables.asked.matches('^(0|[1-9][0-9]?)(,(0|[1-9][0-9]?))+$')
  && variables.asked.split(',').all(one, int(one) < {count})
  && variables.asked.split(',').distinct().size() == variables.asked.split(',').size()
)
"""


REQUESTED_RAILS = f"""\
!variables.sound || variables.asked == '{NO_RAILS}' ? []
: variables.asked == 'all' ? variables.all
: variables.asked.contains(',') ? variables.all.filter(rail, string(rail) in variables.asked.split(','))
: variables.all.filter(rail, rail < int(variables.asked))
"""
"""CEL expression for the numbers of the requested rails, in order; empty if the annotation is invalid."""


def render_error_message(plan: Plan) -> str:
    """Return a CEL expression for the message that refuses an invalid value."""
    head = f"annotation {ANNOTATION} is "
    return f"""\
{_to_cel_literal(head)} + (
  size(variables.asked) <= {MAX_QUOTED_CHARACTERS} && variables.asked.matches('^[ -~]*$')
  ? strings.quote(variables.asked) : 'too long or no plain text'
) + {_to_cel_literal(describe_valid_values(plan))}
"""


def describe_valid_values(plan: Plan) -> str:
    """Return the end of the message that refuses an invalid value: the valid values."""
    count = len(plan.common.rails)
    if count == 1:
        return f"; write all, 1 or {NO_RAILS}: fabric {plan.common.fabric} has rail 0 only"
    example = "0,2" if count > 2 else "0,1"  # noqa: PLR2004 - rail 2 is the third
    return (
        f"; write all, {NO_RAILS}, how many from 1 to {count} (2 is rails 0 and 1), or which, different ones with "
        f"commas and no blanks ({example}): fabric {plan.common.fabric} has rails 0 to {count - 1}"
    )


def _to_cel_literal(text: str) -> str:
    """Return a CEL string literal; the text must not contain quotes or backslashes."""
    return f"'{text}'"
