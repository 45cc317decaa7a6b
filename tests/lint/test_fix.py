"""Safe fixes: comments and order stay, and a second run changes nothing."""

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.finding import LintProblem
from trackbed.lint.fix import apply_fixes, render_diff
from trackbed.lint.manifests import parse_manifests
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
          value: ^mlx5_1
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
          value: ^=mlx5_1
"""


def _lint(text: str) -> tuple[LintProblem, ...]:
    documents, early = parse_manifests(text.encode(), "m.yaml")
    return lint(index_documents(documents), None, early)


def test_every_safe_fix_is_made_in_place() -> None:
    assert apply_fixes(_BEFORE, _lint(_BEFORE)) == _AFTER


def test_fixing_again_changes_nothing() -> None:
    assert apply_fixes(_AFTER, _lint(_AFTER)) == _AFTER


@pytest.mark.parametrize("end", ["\r\n", "\n"], ids=["dos", "unix"])
def test_line_ends_stay_as_they_are(end: str) -> None:
    before = _BEFORE.replace("\n", end)
    assert apply_fixes(before, _lint(before)) == _AFTER.replace("\n", end)


def test_the_diff_shows_both_lines() -> None:
    assert '-  subnet: "10.1.7.0/16"  # all rails\n+  subnet: "10.1.0.0/16"  # all rails\n' in render_diff(
        "m.yaml", _BEFORE, _AFTER
    )
    assert render_diff("m.yaml", _AFTER, _AFTER) == ""


def test_a_fixed_gid_index_is_left_to_a_person() -> None:
    container = '{name: m, image: x, env: [{name: NCCL_IB_GID_INDEX, value: "3"}]}'
    pod = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{container}]}}\n"
    problems = _lint(pod)
    assert [problem.rule for problem in problems] == ["gid-index-fixed"]
    assert apply_fixes(pod, problems) == pod
