"""Training: recipes, objectives, optimizers, schedules, checkpoints and the loop."""
