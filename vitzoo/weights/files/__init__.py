"""Files of tensors, read without executing anything that is in them."""
