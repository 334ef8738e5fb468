"""How factors move: exact gradient flow, its solver, and descent by optimisers."""
