//! Any tree of files over HTTP/1.1, read-only.
//!
//! A [`Server`] shows a tree that `stook` opened: a directory, what is in a pack or an archive, a
//! single file. Files are sent by range, and a whole directory as a tar or zip that is not written
//! anywhere (`?as=tar`). Nothing outside the tree can be had, no client can hold more than a few
//! pieces of memory, and bytes of two states are never mixed: see `docs/guide/serve.md`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use stook::ops::copy::OpenGiven;
//! use stook_serve::{ServeOptions, Server};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! let given = OpenGiven::default().open(directory.path(), &mut |_| true)?;
//! let server = Server::bind(given.into_source()?, ServeOptions::default(), Arc::new(drop))?;
//! println!("{}", server.url());
//! // Ends when it is told to; this one at once.
//! assert_eq!(server.run(&|| true)?.failures, 0);
//! # Ok(())
//! # }
//! ```

mod access;
mod answer;
mod archive;
mod body;
mod conditions;
mod error;
mod find;
mod listing;
mod options;
mod paced;
mod range;
mod readers;
mod served;
mod server;
mod state;
mod target;
mod types;

pub use error::{Error, Result};
pub use options::{ServeOptions, Token};
pub use server::{Report, Server, Summary};
