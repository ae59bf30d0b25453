"""Several runs on one page."""
