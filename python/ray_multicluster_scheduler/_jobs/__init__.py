"""Jobs: submitting, packing, waiting, following, stopping."""
