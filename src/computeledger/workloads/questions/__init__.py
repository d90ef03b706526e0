"""Questions about workloads; their fields are options of commands, keys of plans and controls of pages."""
