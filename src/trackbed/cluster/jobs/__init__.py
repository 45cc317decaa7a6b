"""Users' jobs made to use rails: what a pod template must carry, and where each job API keeps its templates."""
