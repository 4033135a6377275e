"""What only sound needs: reading recordings, filterbanks, augmentation."""
