"""The pages of the dashboard, one file each: widgets, then a value, then the engine, then a picture."""
