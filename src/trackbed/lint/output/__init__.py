"""Findings as text for people, and as JSON, SARIF and JUnit for machines."""
