"""How a chain gets into a function, and off again. The lock lives here."""
