"""`trackbed lab`: a fabric in network namespaces, emulated servers, and Kubernetes."""

import click

from trackbed.cli.groups import CommandGroup
from trackbed_lab.cli import (
    kubernetes,
    kubernetes_pods,
    kubernetes_prove,
    kubernetes_roll,
    kubernetes_run,
    vm,
    vm_faults,
)
from trackbed_lab.cli.faults import break_, doctor, heal
from trackbed_lab.cli.inspection import execute, status
from trackbed_lab.cli.rates import rates
from trackbed_lab.cli.run import run
from trackbed_lab.cli.soak import soak
from trackbed_lab.cli.up import down, up
from trackbed_lab.cli.vm_prove import prove as vm_prove
from trackbed_lab.cli.vm_run import run as vm_run


@click.group("lab", cls=CommandGroup)
def command() -> None:
    """Run a whole fabric in network namespaces: nodes, leaves, a spine, pods. Needs neither root nor RDMA.

    \b
    Examples:
      trackbed lab run                           everything at once, with a report
      trackbed lab up && trackbed lab exec node-0 -- ip route
      trackbed lab break route-rule-missing && trackbed lab doctor
      trackbed lab heal route-rule-missing && trackbed lab down
    """


for _command in (run, up, status, execute, break_, heal, doctor, down, rates, soak, kubernetes.command, vm.command):
    command.add_command(_command)
for _command in (
    kubernetes_run.run,
    kubernetes_prove.prove,
    kubernetes_roll.roll,
    kubernetes_pods.execute,
    kubernetes_pods.logs,
):
    kubernetes.command.add_command(_command)
for _command in (vm_run, vm_prove, vm_faults.break_, vm_faults.heal):
    vm.command.add_command(_command)
