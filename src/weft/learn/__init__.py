"""From emissions to weights: objectives, the optimiser, the budget, the loop, and checkpoints that survive anything."""
