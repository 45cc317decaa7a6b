"""Step names: every port has its planned name, and keeps it.

    ports       the planned name is on the planned hardware (systemd.link(5); IFNAMSIZ of linux/if.h)
    rdma        RDMA devices have their planned names, and rails are in the same order on all nodes
    sources     at most one file names the port
    managers    no other program configures the port by its name (cloud-init, NetworkManager)

A Fabric with names that are too long for the kernel is refused before planning (fabric.model.check).
"""
