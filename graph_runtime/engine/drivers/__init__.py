"""Drivers: they make the calls that the scheduler says can be made, outside its lock."""
