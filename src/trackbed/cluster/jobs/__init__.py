"""Jobs that use rails: what a pod template needs, and where each job API keeps its pod templates."""
