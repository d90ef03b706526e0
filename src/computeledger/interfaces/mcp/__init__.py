"""The Model Context Protocol: every question is a tool of an assistant, facts and sources are resources."""
