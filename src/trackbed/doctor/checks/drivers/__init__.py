"""Step drivers: the ports' driver and its modules, and the GPU's driver.

modules  the driver bound to a port; its modules exist for this kernel, are from one tree and accepted by Secure Boot
gpu      the NVIDIA driver: its library, its fabric manager, and the path from NIC to GPU memory
faults   events since boot: a reloaded driver, DMA that the IOMMU blocked
"""
