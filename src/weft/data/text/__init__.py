"""What only text needs: tokenisers, unseen characters, augmentation, and how a target relates to its source."""
