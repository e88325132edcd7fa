//! Operations: what joins capabilities. They know no terminal: commands and the Python package call
//! them.

pub mod contents;
