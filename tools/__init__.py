"""Programs for the developers of Trackbed; none is part of the product."""
