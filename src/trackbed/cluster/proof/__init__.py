"""A proof from pods: what it creates in a cluster, and how sheets and answers travel as objects."""
