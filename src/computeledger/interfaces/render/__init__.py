"""Views drawn: on a terminal, as a page, in a notebook."""
