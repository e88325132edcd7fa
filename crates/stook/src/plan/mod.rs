//! Which reads serve which wanted ranges.
