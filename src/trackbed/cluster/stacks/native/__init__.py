"""Trackbed's own stack: the agent on every node, and an annotation by which pods ask for rails.

daemon        the agent as a DaemonSet: what it may do, what it sees of the host
annotation    admission policies that turn trackbed.dev/rails into resources
choice        the same annotation in CEL: what it may say, and which rails that is
attach        the stack
"""
