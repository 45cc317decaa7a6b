"""A proof that the cluster runs by itself: a Job of `trackbed prove --pods`, whose account may do that and no more.

The Job and its account have a namespace of their own. Where the pods of the proof get rails, users create pods too, and
who creates a pod chooses its account.

The chart's CronJob has the same rights, and more: it reads the Fabric from the cluster, and writes conditions there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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


class ProofJob(NamedTuple):
    """What a Job proves, and where."""

    name: str
    namespace: str
    """Namespace of the Job and its account."""
    pod_namespace: str
    """Namespace of the pods on the nodes, in which pods get rails."""
    image: str
    """Image with Trackbed, rping and perftest: the Job and these pods use it."""
    stack: str
    fabric: str
    """The Fabric, with its lock, as one YAML stream."""


def build_proof_job(job: ProofJob) -> list[Manifest]:
    """Return the account and its rights, the Fabric, and the Job, in the order of creation.

    The namespace is not among them: who deletes these objects again would delete all that is in it.
    """
    name, rights = job.name, f"trackbed:proof:{job.namespace}:{job.name}"
    subject = {"kind": "ServiceAccount", "name": name, "namespace": job.namespace}
    role, cluster_role = ({"apiGroup": _RBAC, "kind": kind, "name": rights} for kind in ("Role", "ClusterRole"))
    return [
        build_manifest("v1", "ServiceAccount", name, job.namespace),
        build_manifest(f"{_RBAC}/v1", "Role", rights, job.pod_namespace, rules=POD_RULES),
        build_manifest(f"{_RBAC}/v1", "RoleBinding", rights, job.pod_namespace, roleRef=role, subjects=[subject]),
        build_manifest(f"{_RBAC}/v1", "ClusterRole", rights, rules=IDLE_RULES),
        build_manifest(f"{_RBAC}/v1", "ClusterRoleBinding", rights, roleRef=cluster_role, subjects=[subject]),
        build_manifest("v1", "ConfigMap", name, job.namespace, data={_FILE: job.fabric}),
        build_manifest("batch/v1", "Job", name, job.namespace, spec=_build_spec(job)),
    ]


def _build_spec(job: ProofJob) -> dict[str, Any]:
    options = {
        "fabric": f"{_FOLDER}/{_FILE}",
        "nodes": "all",
        "stack": job.stack,
        "image": job.image,
        "namespace": job.pod_namespace,
    }
    container = {
        "name": "proof",
        "image": job.image,
        "command": ["trackbed", "prove", "--pods", "--idle", *(f"--{key}={value}" for key, value in options.items())],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": _SECURITY,
        "volumeMounts": [{"name": "fabric", "mountPath": _FOLDER, "readOnly": True}],
    }
    pod = {
        "serviceAccountName": job.name,
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [{"name": "fabric", "configMap": {"name": job.name}}],
    }
    # A second run would only load the rails again.
    return {"backoffLimit": 0, "template": {"spec": pod}}
