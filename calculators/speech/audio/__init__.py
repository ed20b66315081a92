"""Sound between calculators: `Sound`, and files of sound read and written."""
