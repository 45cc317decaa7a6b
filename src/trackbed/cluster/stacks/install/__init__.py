"""The installation bundle of a stack: Helm values, manifests of each stage, a script, a playbook, files for hosts."""
