"""A pure model of the queue, the machine that compares it with every store, and the mutants both must find."""
