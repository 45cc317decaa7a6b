"""Output formats: text, SARIF and JUnit."""
