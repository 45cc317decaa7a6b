"""Step bios: what the server's firmware sets up for the kernel: PCI functions, memory windows, links, placement.

    presence   ports and GPUs that are not on the bus; ACPI tables and memory windows that the firmware left out
    pcie       links that trained with fewer lanes or at a lower speed, their errors, slots without enough power
    placement  NUMA nodes, NICs near their GPU, ACS between the two
    power      CPU governor; kernel lockdown, which Secure Boot turns on

Checks of the physical PCI tree are skipped in a virtual machine, whose PCI tree is emulated.
"""
