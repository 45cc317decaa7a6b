"""Other projects' stacks, run by their own programs on emulated servers: one module for each family."""

from trackbed_lab.kubernetes.stacks import dra, dranet, network_operator, spiderpool, sriov_operator
from trackbed_lab.kubernetes.stacks.lab_stack import LabStack

_FAMILIES = (network_operator.STACKS, sriov_operator.STACKS, spiderpool.STACKS, dra.STACKS, dranet.STACKS)
STACKS: dict[str, LabStack] = {stack.name: stack for family in _FAMILIES for stack in family}
"""The stacks that the lab can run besides `native`, by name."""
