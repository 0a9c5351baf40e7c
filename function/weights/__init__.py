"""How weights reach the pods: one planner, one claim builder, one Job builder for every case."""
