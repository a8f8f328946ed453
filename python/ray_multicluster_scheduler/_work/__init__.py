"""Tasks and actors: what they ask for, where they are placed, that they are alive."""
