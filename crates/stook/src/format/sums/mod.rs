//! Lists of checksums, a line for each file: what `sha256sum`, `sha1sum`, `md5sum`, `b3sum`,
//! `xxhsum` and dircopy write, and read with `-c`.
//!
//! [`SumsReader`] takes a list from anything that is read forwards, in the memory of one line;
//! [`line()`] makes a line. `docs/formats/checksum-lists.md` lays it down.
//!
//! ```
//! use stook::format::sums::{SumsReader, line};
//! use stook::hash::{Digest, HashKind};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let digest = Digest::of(HashKind::Sha256, b"pictures");
//! let list = [&line(&digest, b"take 1")[..], b"nonsense\n"].concat();
//! let mut reader = SumsReader::new(&list[..], None);
//! let take = reader.next_line()?.ok_or("two lines")??;
//! assert_eq!((take.path, take.digests.contains(&digest)), (b"take 1".to_vec(), true));
//! let bad = reader.next_line()?.ok_or("two lines")?.unwrap_err();
//! assert_eq!(bad.number, 2);
//! # Ok(())
//! # }
//! ```

mod fault;
mod names;
mod parse;
mod read;
mod write;

pub use fault::{BadLine, LineFault};
pub use names::{
    file_of_name, free_number, is_list_name, is_own_list_name, is_own_proofs_name, kind_of_name, list_name,
    new_date, number_of_name, proof_name, proofs_name,
};
pub use parse::SumLine;
pub use read::{LINE_MAX, SumsReader};
pub use write::{is_read_by_its_program, line};
