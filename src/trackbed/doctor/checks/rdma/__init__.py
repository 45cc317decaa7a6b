"""Step rdma: the kernel's RDMA stack is loaded, and each port has a usable device.

    stack       modules, device nodes, and the namespace mode of devices (rdma-system(8))
    devices     one device for each port, and no device lost in a namespace
    ports       state, rate, path MTU and GIDs of each device

The checks in `ports` depend on the port's addresses and cable, so the catalogue lists their faults after those.
"""
