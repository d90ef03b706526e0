"""What people and programs meet: command line, report, plots. No formula lives here."""
