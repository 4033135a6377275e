"""The command line: thin commands that parse, import lazily, call, and return an exit code."""
