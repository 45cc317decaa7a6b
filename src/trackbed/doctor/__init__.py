"""Comparison of nodes with their plan: findings with evidence, cause and fix."""
