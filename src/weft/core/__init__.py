"""The words that every part of Weft shares: kinds, masks, errors, trace."""
