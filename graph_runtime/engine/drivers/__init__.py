"""Drivers make the calls that the scheduler has queued, outside its lock."""
