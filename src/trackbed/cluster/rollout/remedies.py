"""Remedies for an object that does not reach its condition, by kind."""

from trackbed.cluster.api.response import Object

_DESCRIBED = "`kubectl describe {kind} {name}{where}` has its events"
_PODS = "{described}, `kubectl get pods{where}` its pods"
_POOL = (
    "see that NV-IPAM's controller runs (`kubectl get pods{where}`) and that nodes have the label that the pool selects"
)
_REMEDIES = {
    "CustomResourceDefinition": (
        "`kubectl describe crd {name}` says why; where another CRD has its names delete that one, then install its "
        "operator again"
    ),
    "DaemonSet": _PODS,
    "Deployment": _PODS,
    "Node": "{described}, `kubectl get pods -A --field-selector spec.nodeName={name}` shows its device plugin",
    "NicClusterPolicy": "{described}, `kubectl get pods --namespace nvidia-network-operator` shows the part that fails",
    "SpectrumXRailPoolConfig": "mend the nodes that it names; {described}",
    "SriovNetworkNodeState": (
        "`kubectl logs{where} --selector app=sriov-network-config-daemon --prefix --tail 20` says what each node does; "
        "a drain waits for disruption budgets: `kubectl get pdb -A`"
    ),
    "TigeraStatus": "{described}, `kubectl get tigerastatus` shows which part of Calico fails",
    "CIDRPool": _POOL,
    "IPPool": _POOL,
}


def suggest_remedy(body: Object) -> str:
    """Return the remedy for an object that does not reach its condition, in one line."""
    metadata = body["metadata"]
    where = f" --namespace {metadata['namespace']}" if metadata.get("namespace") else ""
    fields = {"kind": body["kind"].lower(), "name": metadata["name"], "where": where}
    return _REMEDIES.get(body["kind"], _DESCRIBED).format(**fields, described=_DESCRIBED.format(**fields))
