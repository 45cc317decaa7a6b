"""Trackbed's own stack: the agent on every node, and an annotation by which pods request rails.

daemon        the DaemonSet of the agent, with its capabilities and mounts
annotation    admission policies that convert the annotation trackbed.dev/rails to resources
choice        CEL expressions that validate and parse the annotation
attach        the stack itself
"""
