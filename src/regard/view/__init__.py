"""Pictures of what `record` gives: attention heat maps (PNG, SVG, one HTML page) and loss curves."""
