"""The report of a lab run: one HTML page that travels alone. First plain values (`page`), then the template."""
