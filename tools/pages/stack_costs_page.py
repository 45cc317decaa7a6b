"""The page of what pods with all rails cost with each stack, as bench/stack_runs.py measured it."""

from bench.stack_runs import HEADER, iter_rows, read_runs

_HEAD = """\
# What stacks cost

Two emulated servers with 8 rails, on the same two cores, by `scripts/bench stacks --run`. Each stack runs by its own
programs ([whose is what](../lab-stacks.md)). The times are those of emulated processors: compare them with each other.

- **two pods run**: from the creation of a job of two pods, each with all rails on a server of its own, until they run
- **back**: from the end of their programs until pods, VFs, ports and addresses are as before
- **API requests**: of all but the lab, for any resource but leases, meanwhile
- **memory of all pods**: of the stack, and of what a site brings for it, on both servers, after the job

"""


def render_stack_costs_page() -> str:
    """Return the page, in Markdown."""
    rows = [f"| {' | '.join(cells)} |" for cells in (HEADER, ["---"] * len(HEADER), *iter_rows(read_runs()))]
    return _HEAD + "\n".join(rows) + "\n"
