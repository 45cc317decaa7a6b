"""Safe fixes: comments and order stay, and a second run changes nothing."""

from __future__ import annotations

import pytest

from trackbed.lint.corpus import corpus
from trackbed.lint.finding import Finding
from trackbed.lint.fix import diff, fixed
from trackbed.lint.manifests import manifests
from trackbed.lint.run import lint

_BEFORE = """# the rails
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata:
  name: rail0
  namespace: spiderpool   # not needed
spec:
  subnet: "10.1.7.0/16"  # all rails
  gateway: 10.1.0.1
---
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata: {name: p, namespace: nvidia}
spec:
  sriovDevicePlugin:
    config: |
      {"resourceList": [
        {"resourceName": "rail0", "selectors": {"isRdma": true,},},
      ]}
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
    - name: main
      env:
        - {name: NCCL_IB_HCA, value: "mlx5_1,mlx5_2"}  # both
        - name: NCCL_IB_HCA
          value: ^mlx5_3
"""
_AFTER = """# the rails
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata:
  name: rail0
spec:
  subnet: "10.1.0.0/16"  # all rails
  gateway: 10.1.0.1
---
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata: {name: p, namespace: nvidia}
spec:
  sriovDevicePlugin:
    config: |
      {"resourceList": [
        {"resourceName": "rail0", "selectors": {"isRdma": true}}
      ]}
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
    - name: main
      env:
        - {name: NCCL_IB_HCA, value: "=mlx5_1,mlx5_2"}  # both
        - name: NCCL_IB_HCA
          value: ^=mlx5_3
"""


def _found(text: str) -> tuple[Finding, ...]:
    documents, early = manifests(text.encode(), "m.yaml")
    return lint(corpus(documents), None, early)


def test_every_safe_fix_is_made_in_place() -> None:
    assert fixed(_BEFORE, _found(_BEFORE)) == _AFTER


def test_fixing_again_changes_nothing() -> None:
    assert fixed(_AFTER, _found(_AFTER)) == _AFTER


@pytest.mark.parametrize("end", ["\r\n", "\n"], ids=["dos", "unix"])
def test_line_ends_stay_as_they_are(end: str) -> None:
    before = _BEFORE.replace("\n", end)
    assert fixed(before, _found(before)) == _AFTER.replace("\n", end)


def test_the_diff_shows_both_lines() -> None:
    assert '-  subnet: "10.1.7.0/16"  # all rails\n+  subnet: "10.1.0.0/16"  # all rails\n' in diff(
        "m.yaml", _BEFORE, _AFTER
    )
    assert diff("m.yaml", _AFTER, _AFTER) == ""


def test_a_fixed_gid_index_is_left_to_a_person() -> None:
    env = '{name: NCCL_IB_GID_INDEX, value: "3"}'
    pod = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{{name: m, env: [{env}]}}]}}\n"
    found = _found(pod)
    assert [one.rule for one in found] == ["gid-index-fixed"]
    assert fixed(pod, found) == pod
