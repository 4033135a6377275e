"""A run in the format of another engine. Each engine is a module; what it does not know is refused by name."""
