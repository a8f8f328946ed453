//! The `ray-multicluster` command.

fn main() {}
