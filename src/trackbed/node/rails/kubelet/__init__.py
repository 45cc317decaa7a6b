"""What the agent and the kubelet say to each other: devices offered (device plugin API), devices given (pod-resources).

wire        protocol buffers, as bytes
messages    the few messages of both APIs
plugin      the device plugins: one resource for each rail
pods        which rails the kubelet gave to a pod
"""
