"""The kinds of setting: each is read, compared and described here."""
