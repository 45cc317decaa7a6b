"""Step vfs: each port has its planned virtual functions, and pods can use them.

    count       the number of VFs, and the program that creates them after a reboot
    binding     the VFs' drivers, and settings of their port that cut them off
    owners      the pods that hold VFs, and VFs that leaked into a namespace without a pod
    identity    MAC addresses and GUIDs
    limits      MTU, VLAN, trust and rates that the port sets for its VFs
    functions   reading of VFs from sysfs, which these modules share

Sources: sysfs (Documentation/PCI/pci-iov-howto.rst, Documentation/ABI/testing/sysfs-bus-pci) and netlink
(IFLA_VFINFO_LIST). A port whose function offers no VFs is a fault of step firmware and is skipped here.
"""
