"""Where objects lie: nodes, their inventory, the working disk."""
