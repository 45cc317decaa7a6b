"""What upstream drivers do, as rows: each model of a driver is a table of them."""

from typing import NamedTuple

V6_1 = "v6.1.192"
"""The tag of linux-stable in which a rule was read, unless its row names a commit of the main line."""


class Rule(NamedTuple):
    """One thing that a driver or the kernel above it does, and where its source says so."""

    text: str
    file: str
    function: str
    commit: str = V6_1


DCBNL, RTNETLINK, IOV = "net/dcb/dcbnl.c", "net/core/rtnetlink.c", "drivers/pci/iov.c"
CMA, CONFIGFS = "drivers/infiniband/core/cma.c", "drivers/infiniband/core/cma_configfs.c"

KERNEL = (
    Rule("DCB of an interface whose driver has none: EOPNOTSUPP; of no interface: ENODEV", DCBNL, "dcb_doit"),
    Rule("a driver's refusal stands in the reply, one byte, and the request is acknowledged", DCBNL, "dcbnl_ieee_set"),
    Rule("a setting that the driver has no function for is passed over in silence", DCBNL, "dcbnl_ieee_set"),
    Rule(
        "an APP entry that exists: EEXIST; entries of one codepoint with other priorities stay",
        DCBNL,
        "dcb_ieee_setapp",
    ),
    Rule("an APP entry that does not exist cannot be deleted: ENOENT", DCBNL, "dcb_ieee_delapp"),
    Rule("an interface that leaves its namespace or driver loses its APP entries", DCBNL, "dcbnl_netdevice_event"),
    Rule("a driver without a list of trusted selectors refuses one: EOPNOTSUPP", DCBNL, "dcbnl_ieee_set", "v6.2"),
    Rule("VF settings are taken in a fixed order, and the first refusal ends the message", RTNETLINK, "do_setvfinfo"),
    Rule("a node GUID ends the message with success: a port GUID beside it is never read", RTNETLINK, "do_setvfinfo"),
    Rule("GUIDs belong to InfiniBand interfaces alone: EOPNOTSUPP", RTNETLINK, "handle_vf_guid"),
    Rule("more VFs than sriov_totalvfs: ERANGE", IOV, "sriov_numvfs_store"),
    Rule("as many VFs as there are: nothing happens", IOV, "sriov_numvfs_store"),
    Rule("another number of VFs where there are some: EBUSY, 0 comes first", IOV, "sriov_numvfs_store"),
    Rule("rdma_cm's ToS is 0 whenever a device appears, also in another namespace", CMA, "cma_add_one"),
    Rule("a ToS is one byte: ERANGE", CONFIGFS, "default_roce_tos_store"),
    Rule("rdma_cm's folder of a device that does not exist cannot be made: ENODEV", CONFIGFS, "make_cma_dev"),
    Rule(
        "an RDMA device gets the lowest number that no device has, also that of one that was renamed",
        "drivers/infiniband/core/device.c",
        "alloc_name",
    ),
    Rule(
        "an RDMA device moves only in exclusive mode, and only if its driver can let go of users: EOPNOTSUPP",
        "drivers/infiniband/core/device.c",
        "ib_device_set_netns_put",
    ),
)
"""What stands above all drivers."""
