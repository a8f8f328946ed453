"""The end-to-end core on older Rays and on other Pythons; `make compat` writes the table."""
