"""Step firmware: the NIC's own firmware and its settings.

settings   the NIC's flash: VFs, link layer, ATS, the BlueField's mode, values that take effect after a reset
registers  PCIe settings of the NIC that limit bandwidth (read requests, ordering); firmware versions of all rails
health     reports of the driver and of sensors: crashes, commands without a response, overheating
"""
