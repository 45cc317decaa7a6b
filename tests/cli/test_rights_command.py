"""Which stacks a controller may be told to apply, and the rights that it needs for them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from trackbed.cli.main import cli

FABRIC = str(Path(__file__).parents[2] / "examples" / "emulated-exclusive.yaml")


def done(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


@pytest.mark.parametrize(
    ("stacks", "why"),
    [
        ("native", "--stacks native: its objects come with the control plane's chart; leave it out"),
        ("sriov-operator,kvm", "--stacks kvm: it has no objects in a cluster; leave it out"),
        ("sriov-operatr", "no stack 'sriov-operatr'"),
    ],
)
def test_a_stack_that_cannot_be_applied_is_refused_at_once(stacks: str, why: str) -> None:
    result = done("controller", "--stacks", stacks)
    assert result.exit_code == 2
    assert why in result.stderr


def test_rights_are_a_role_and_its_binding_for_the_account_that_is_named() -> None:
    result = done("render", "rights", "sriov-operator", "-f", FABRIC, "--account", "there:who")
    role, binding = yaml.safe_load_all(result.stdout)
    assert (role["kind"], role["metadata"]["name"]) == ("ClusterRole", "trackbed-stack-sriov-operator")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "who", "namespace": "there"}]


def test_an_account_without_namespace_is_refused() -> None:
    result = done("render", "rights", "sriov-operator", "-f", FABRIC, "--account", "who")
    assert result.exit_code == 2
    assert "--account who: write the service account's namespace and name as NAMESPACE:NAME" in result.stderr
