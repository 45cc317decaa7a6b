"""The admission webhook: injects rails into pods that request them, and refuses impossible requests with the reason.

server               HTTPS application for AdmissionReviews
  review             requests and responses of AdmissionReviews
  pods               review of pods; rail_requests: the annotations that request rails
  fabrics            review of Fabrics and RailNodes; fabric_process: that of a Fabric in a process of its own
  namespaces         review of namespaces: the label of namespaces whose pods get rails by default
  cluster_state      the input of all reviews: Fabrics with their plans, namespaces, slots, address ranges
cluster_watch        keeps the cluster state up to date
configuration        the objects that register the webhook with the API server
certificates         creation and renewal of authority and certificate; certificate_store: their Secret
"""
