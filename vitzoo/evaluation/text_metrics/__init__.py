"""Numbers that compare texts with what they should be."""
