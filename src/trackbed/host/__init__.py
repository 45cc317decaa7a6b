"""One machine: what is wanted there, what it is, what lies between, and the way there and back."""
