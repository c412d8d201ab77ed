"""One module a verb: parse, call a service, print."""
