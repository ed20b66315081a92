"""Options of calculators and handlers: their schemas, their text form, their values."""
