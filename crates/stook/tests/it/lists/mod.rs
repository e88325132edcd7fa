//! Lists of checksums: for programs, and ASC MHL; with the programs themselves as judges.

mod mhl;
mod programs;
mod sums;
