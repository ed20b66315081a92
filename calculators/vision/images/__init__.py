"""Images and masks: warped, smoothed, colored."""
