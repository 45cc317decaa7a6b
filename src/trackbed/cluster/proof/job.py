"""A proof that the cluster runs by itself: a Job of `trackbed prove --pods`, whose account may do that and no more.

The chart's CronJob has the same rights, and more: it reads the Fabric from the cluster, and writes conditions there.
"""

from __future__ import annotations

from typing import Any

from trackbed.cluster.stacks.objects import Manifest, build_manifest

POD_RULES: list[dict[str, Any]] = [
    {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["list", "watch", "create", "delete", "deletecollection"],
    },
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "patch", "deletecollection"],
    },
    {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["create", "deletecollection"]},
    {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "rolebindings"],
        "verbs": ["create", "deletecollection"],
    },
]
"""What a proof does in the namespace of its pods."""
IDLE_RULES: list[dict[str, Any]] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
"""What it does in all namespaces: it looks for nodes on which no pod holds devices (`idle`)."""
_FOLDER, _FILE = "/run/trackbed-fabric", "fabric.yaml"
_RBAC = "rbac.authorization.k8s.io"
_SECURITY: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def build_proof_job(name: str, namespace: str, image: str, fabric: str, stack: str) -> list[Manifest]:
    """Return the account, its rights, the Fabric (with its lock, as one YAML stream) and the Job.

    `image` has Trackbed, rping and perftest: the Job and the pods of the proof use it.
    """
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    everywhere = f"{namespace}-{name}"
    role, cluster_role = (
        {"apiGroup": _RBAC, "kind": kind, "name": rights}
        for kind, rights in (("Role", name), ("ClusterRole", everywhere))
    )
    return [
        build_manifest("v1", "ServiceAccount", name, namespace),
        build_manifest(f"{_RBAC}/v1", "Role", name, namespace, rules=POD_RULES),
        build_manifest(f"{_RBAC}/v1", "RoleBinding", name, namespace, roleRef=role, subjects=[subject]),
        build_manifest(f"{_RBAC}/v1", "ClusterRole", everywhere, rules=IDLE_RULES),
        build_manifest(f"{_RBAC}/v1", "ClusterRoleBinding", everywhere, roleRef=cluster_role, subjects=[subject]),
        build_manifest("v1", "ConfigMap", name, namespace, data={_FILE: fabric}),
        build_manifest("batch/v1", "Job", name, namespace, spec=_build_spec(name, namespace, image, stack)),
    ]


def _build_spec(name: str, namespace: str, image: str, stack: str) -> dict[str, Any]:
    options = {
        "fabric": f"{_FOLDER}/{_FILE}",
        "nodes": "all",
        "stack": stack,
        "image": image,
        "namespace": namespace,
    }
    container = {
        "name": "proof",
        "image": image,
        "command": ["trackbed", "prove", "--pods", "--idle", *(f"--{key}={value}" for key, value in options.items())],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": _SECURITY,
        "volumeMounts": [{"name": "fabric", "mountPath": _FOLDER, "readOnly": True}],
    }
    pod = {
        "serviceAccountName": name,
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [{"name": "fabric", "configMap": {"name": name}}],
    }
    # A second run would only load the rails again.
    return {"backoffLimit": 0, "template": {"spec": pod}}
