"""Causes of errors that programs around pods' networks report, by the words of their messages."""
