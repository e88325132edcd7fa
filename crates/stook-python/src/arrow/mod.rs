//! Arrow: tables through the C data and the C stream interface, by capsules of Python.
//!
//! `abi` has the structures, `export` makes them of batches, `stream` hands them out, and `import`
//! reads those of others. Which columns there are, and of what types, is the library's matter.
#![expect(unsafe_code, reason = "the C interfaces of Arrow are a matter of pointers")]

mod abi;
pub(crate) mod cells;
mod export;
pub(crate) mod import;
mod interpreter;
pub(crate) mod stream;
