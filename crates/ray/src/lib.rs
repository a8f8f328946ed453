//! A typed client of one Ray dashboard.
