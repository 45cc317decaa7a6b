"""Messages as they reach the API server, one program quoting another, and the cause that is named."""

_ADD = (
    'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "4b1c": plugin '
    'type="multus" name="multus-cni-network" failed (add): [default/p/1:rail0]: error adding container to network '
    '"rail0": '
)
_SPIDERPOOL = (
    "spiderpool IP allocation error: [POST /ipam/ip][500] postIpamIpFailure  failed to allocate IP addresses in "
)
_DRA = (
    "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim r: "
)

NESTED = {
    (
        f'{_ADD}failed to set up IPAM plugin type "nv-ipam" from the device "rail0": grpc call failed: rpc error: code '
        '= ResourceExhausted desc = no free addresses in the pool "rail0", poolType "ippool"'
    ): "nv-ipam-pool-used-up",
    (
        f'{_ADD}failed to set up IPAM plugin type "whereabouts" from the device "rail0": error at storage engine: '
        "Could not allocate IP in range: ip: 10.0.0.1 / - 10.0.0.6 / range: 10.0.0.0/29 / excludeRanges: []"
    ): "whereabouts-range-used-up",
    (
        f'{_ADD}failed to find plugin "rdma" in path [/opt/cni/bin], failed to clean up sandbox container "4b1c" '
        'network for pod "p": SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required'
    ): "cni-plugin-missing",
    (
        f"{_ADD}{_SPIDERPOOL}standard mode: no IPPool available, all IPv4 IPPools [a b] of net1 filtered out: ["
        "unmatched Node name of IPPool a, unmatched Node name of IPPool b]"
    ): "spiderpool-pool-not-for-node",
    (
        "failed to attach network: failed to AddNetwork: SRIOV-CNI failed to load netconf: LoadConf(): pci address "
        "0000:3b:00.2 is already allocated"
    ): "vf-held-by-other-pod",
    (
        'admission webhook "operator-webhook.sriovnetwork.openshift.io" denied the request: vendor/device 8086/1528 is '
        "not supported"
    ): "nic-not-supported",
    (
        f"{_DRA}error preparing devices for claim 1: prepare failed: error applying config on device: error handling "
        "RDMA device: no RDMA devices found for PCI address 0000:3b:00.2"
    ): "dra-sriov-without-rdma",
    f"{_ADD}config file not found": "whereabouts-not-configured",
    "config file not found in the image": "",
    "Back-off pulling image": "",
    "0/3 nodes are available: 3 Insufficient cpu.": "",
    "Link not found": "",
}
