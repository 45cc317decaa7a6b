"""Print seconds and MB of planning a proof of 12,500 nodes × 8 rails: all rounds of a screen, and of a cover."""

import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.prove import build_fabric  # found by the line above
from trackbed.prove.rounds import plan_cover, plan_screen


def main() -> None:
    """Plan both modes and print the processor seconds of each, and the largest resident set with the plan in memory."""
    topology = build_fabric(12_500)
    for planner in (plan_screen, plan_cover):
        start = time.process_time()
        rounds = list(planner(topology))
        print(time.process_time() - start, len(rounds), sum(len(tests.a) for tests in rounds))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)


if __name__ == "__main__":
    main()
