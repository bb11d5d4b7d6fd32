"""The same mathematics, faster; each beside the plain version it must equal."""
