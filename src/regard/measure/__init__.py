"""What a model costs: counted from the spec before anything runs (`plan`, `parameters`, `table`). No torch needed."""
