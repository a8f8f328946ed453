"""Tasks and actors: their demands, their placements, their heartbeats."""
