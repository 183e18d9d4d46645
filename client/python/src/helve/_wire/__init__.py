"""The messages and methods of `helve.v1`."""
