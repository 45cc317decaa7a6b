"""What is there against what is wanted: findings with evidence, cause and fix."""
