"""Print the seconds that the plan function takes for one Fabric file, without start, reading and output."""

import sys
import time
from pathlib import Path

from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan


def main() -> None:
    """Plan the file named by the first argument and print the seconds."""
    fabric = load_fabric(Path(sys.argv[1]).read_bytes(), sys.argv[1]).fabric
    start = time.perf_counter()
    compute_plan(fabric, {})
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
