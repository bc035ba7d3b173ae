"""How channels stand: states, refusals, numbers."""
