"""The admission webhook: pods that ask for rails are given them, and what cannot work is refused with the reason.

server          HTTPS: reviews in, reviews out
  review        the API server's question and our answer
  pods          what becomes of a pod              asked: what it asks for
  fabrics       whether a Fabric may be as it is   railnodes: the same of a RailNode
  namespaces    the label by which a namespace with a default is told
  known         what all of them go by: Fabrics with their plans, namespaces, slots, the cluster's ranges
watching        fills `known` from the API server
configuration   the objects by which the API server calls us
certificates    authority and certificate, made and renewed here; keeping: in a Secret
"""
