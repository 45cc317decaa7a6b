"""One Kubernetes: its API, our kinds, what a plan becomes there, and who carries it out."""
