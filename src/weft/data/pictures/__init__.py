"""What only pictures need: reading files, augmentation, pictures that are given in memory."""
