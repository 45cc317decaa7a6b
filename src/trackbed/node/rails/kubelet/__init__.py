"""The agent's side of two kubelet APIs: it offers devices (device plugin) and reads allocations (pod-resources).

wire        protocol buffers, as bytes
messages    the messages of both APIs that the agent needs
plugin      the device plugins: one resource for each rail
pods        the devices that the kubelet allocated to a pod
"""
