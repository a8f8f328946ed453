"""Several Ray clusters behind the plain `ray` API. All use of Ray's internals is in here."""
