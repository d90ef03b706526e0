"""The local app: pages in a browser that ask the same calls as the command line."""
