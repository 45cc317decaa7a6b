"""The admission webhook: injects rails into pods that request them, and refuses impossible requests with the reason.

server               HTTPS for AdmissionReviews
  review             AdmissionReview requests and responses
  pods               mutation of pods                    rail_requests: the annotations that request rails
  fabrics            validation of Fabrics               railnodes: of RailNodes
  namespaces         the label of namespaces whose pods get rails by default
  cluster_state      the input of all reviews: Fabrics with their plans, namespaces, slots, the cluster's ranges
cluster_watch        keeps the cluster state up to date
configuration        the webhook configurations of the API server
certificates         creation and renewal of authority and certificate; certificate_store: their Secret
"""
