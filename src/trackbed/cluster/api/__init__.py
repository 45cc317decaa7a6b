"""Client of an API server: typed requests by path, objects of any kind, reflectors and leases.

configuration   kubeconfig files and login
client          requests by path, lists page by page, watch streams; retries
dynamic         objects of any kind as dictionaries, found by discovery
discovery       discovery documents: the kinds that the server serves
response        parsing of responses: an object, or an error that names the object and the reason
errors          errors of requests
metadata        metadata of objects
metrics         metrics of requests and watch streams
times           timestamps in the format of the API
reflector       a kind's objects, kept up to date by a watch
lease           leader election
"""
