"""The API server's client: typed requests by path, objects of any kind, reflectors and leases.

configuration   kubeconfig files and login
client          requests by path, lists page by page, streams; retries and metrics
dynamic         objects of any kind as plain values, found by discovery
discovery       the documents of discovery
response        responses as objects, or as errors that name the object and the reason
metadata        metadata of objects
reflector       a kind's objects, kept up to date by a watch
lease           leader election
"""
