"""Named experiments, small and seeded, that finish on two CPU cores: `weft recipe list`, `weft recipe run NAME`."""
