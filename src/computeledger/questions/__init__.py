"""Questions and their answers: a record in, a record out; no terminal, no page."""
